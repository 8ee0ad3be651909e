#!/usr/bin/env python3
"""What tests/gpu/run packs, refuses and reports: with the real build, and with programs that stand in for those on a device.

  run_test.py BUILD UNPORTABLE FAKE    UNPORTABLE: a program that needs libraries which other machines lack
                                       FAKE: a plugin whose device is the CPU, with 1 MiB
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

RUN = pathlib.Path(__file__).with_name("run")
BUILD = pathlib.Path(sys.argv[1])
UNPORTABLE = pathlib.Path(sys.argv[2])
FAKE = pathlib.Path(sys.argv[3])
PROGRAMS = ["gpu_codec", "gpu_codec_bench"]
PACKED = [*PROGRAMS, "libgdf_cuda.so"]
ENDLESS = "exec tail -f /dev/null"


def call(*command):
    """Status and output, with no device to be seen."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    return done.returncode, done.stdout


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def unpack(self):
        """The real build, packed and unpacked in another place."""
        file = self.folder / "packed.tar.gz"
        status, output = call(RUN, BUILD, "--pack", file)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"needs \w+, GLIBC_2\.\d+, GLIBCXX_3")
        with tarfile.open(file) as tar:
            self.assertCountEqual(tar.getnames(), ["gdf-gpu", *[f"gdf-gpu/{name}" for name in ["run", *PACKED]]])
            tar.extractall(self.folder)
        return self.folder / "gdf-gpu"

    def stand_ins(self, checks, timings):
        """What is unpacked, with shell programs in place of the real ones."""
        shutil.copy(RUN, self.folder)
        for name, body in zip(PROGRAMS, (checks, timings)):
            (self.folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (self.folder / name).chmod(0o755)
        return self.folder / "run"

    def test_the_real_build_is_carried_and_skipped_where_no_device_is(self):
        status, output = call(self.unpack() / "run")
        self.assertEqual(status, 77, output)
        self.assertIn("skipped: no device", output)
        self.assertEqual(call(RUN, BUILD)[0], 77)

    def test_each_packed_program_skips_by_itself(self):
        folder = self.unpack()
        for name in PROGRAMS:
            status, output = call(folder / name)
            self.assertEqual(status, 77, output)
            self.assertIn("skipped", output)

    def test_what_needs_another_library_is_refused_by_its_name(self):
        needed = subprocess.run(["readelf", "-d", str(UNPORTABLE)], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("libhwy.so", needed)
        for unportable in PACKED:
            build = self.folder / unportable
            (build / "bin").mkdir(parents=True)
            for name in PACKED:
                shutil.copy(UNPORTABLE if name == unportable else BUILD / "bin" / name, build / "bin" / name)
            for more in ([], ["--pack", self.folder / "packed.tar.gz"]):
                status, output = call(RUN, build, *more)
                self.assertEqual(status, 1, output)
                self.assertRegex(output, rf"bin/{unportable} needs lib(hwy|yaml-cpp|absl_\w+)\.so")
            self.assertFalse((self.folder / "packed.tar.gz").exists())

    def test_timings_are_of_every_codec_and_operation(self):
        shutil.copy(BUILD / "bin/gpu_codec_bench", self.folder)
        shutil.copy(FAKE, self.folder / "libgdf_cuda.so")
        status, output = call(self.folder / "gpu_codec_bench")
        self.assertEqual(status, 0, output)
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.assertEqual((lines[0]["operation"], lines[0]["of_copy"]), ("copy", 1.0))
        kinds = {line["codec"].split(":")[0] for line in lines[1:]}
        self.assertEqual(kinds, {"fp32", "bf16", "fp16", "int8", "int4", "fp4", "sign", "topk2", "topk8", "dct"})
        for codec in {line["codec"] for line in lines[1:]}:
            operations = ["encode", "decode", "decode-accumulate"]
            self.assertEqual([line["operation"] for line in lines if line["codec"] == codec], operations)
            for operation in operations:
                self.assertRegex(output, rf"(?m)^{codec} +{operation} +\d+\.\d+ +\d+\.\d+ +\d+\.\d+ +\d+\.\d+$")
        # The stand-in takes as long for any of them, so shares are those of bytes: of a copy, 8 for each value. By the formats
        # int8:256 packs 256 values into 260 bytes, sign:1024 1024 into 132; top-k adds to 64 values of 4096 alone.
        share = {(line["codec"], line["operation"]): line["of_copy"] for line in lines}
        for codec, encode, accumulate in [("fp32", 1, 1.5), ("bf16", 0.75, 1.25), ("int8:256", (1024 + 260) / 2048, (260 + 2048) / 2048),
                                          ("sign:1024", (4096 + 132) / 8192, (132 + 8192) / 8192)]:
            self.assertAlmostEqual(share[codec, "encode"], encode, delta=0.001)
            self.assertAlmostEqual(share[codec, "decode"], encode, delta=0.001)
            self.assertAlmostEqual(share[codec, "decode-accumulate"], accumulate, delta=0.001)
        self.assertAlmostEqual(share["topk2:64", "decode-accumulate"], share["topk2:64", "encode"] - 0.5 + 64 / 4096, delta=0.002)
        self.assertAlmostEqual(lines[0]["of_memory"], 0.5)  # by what the stand-in says of itself

    def test_what_was_not_built_is_named(self):
        status, output = call(RUN, self.folder)
        self.assertEqual(status, 1, output)
        self.assertIn(f"{self.folder}/bin/gpu_codec is not there", output)

    def test_passes_when_all_parts_do(self):
        status, output = call(self.stand_ins("echo checked", "echo timed"))
        self.assertEqual(status, 0, output)
        self.assertLess(output.index("checked"), output.index("timed"))
        self.assertRegex(output, r"checks against core/compress: passed, \d+ s\ntimings: passed, \d+ s")

    def test_a_part_that_fails_fails_the_run_and_not_the_next_part(self):
        status, output = call(self.stand_ins("exit 3", "echo timed"))
        self.assertEqual(status, 1, output)
        self.assertIn("timed", output)
        self.assertRegex(output, r"checks against core/compress: FAILED with status 3\ntimings: passed")
        status, output = call(self.stand_ins("exit 0", "exit 1"))
        self.assertEqual(status, 1, output)
        self.assertIn("timings: FAILED with status 1", output)

    def test_a_part_that_does_not_end_is_ended(self):
        for stubborn in ("", "trap '' TERM; "):
            status, output = call(self.stand_ins(stubborn + ENDLESS, "echo timed"), "--seconds", "1")
            self.assertEqual(status, 1, output)
            self.assertIn("checks against core/compress: FAILED, not done when the 1 s were over", output)
            self.assertIn("timings: FAILED, not done when the 1 s were over", output)

    def test_no_device_is_a_visible_skip(self):
        status, output = call(self.stand_ins("exit 77", "echo timed"))
        self.assertEqual(status, 77, output)
        self.assertIn("skipped: no device", output)
        self.assertNotIn("timed", output)

    def test_wrong_usage_is_refused(self):
        unpacked = self.stand_ins("exit 0", "exit 0")
        for command in ([RUN], [RUN, BUILD, "--pack"], [RUN, BUILD, "--fast", "1"], [unpacked, "--pack", self.folder / "x"],
                        *[[unpacked, "--seconds", n] for n in ("0", "231", "9999", "-1", "many", "")]):
            status, output = call(*command)
            self.assertEqual(status, 4, output)
            self.assertIn("usage: tests/gpu/run", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
