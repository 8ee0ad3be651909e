#!/usr/bin/env python3
"""The lints find what they are for: each is run on a small tree with one known fault."""
import pathlib
import tempfile
import unittest

import lint

LAYERS = """set(GDF_LAYER_base 0)
foreach(m config net)
  set(GDF_LAYER_${m} 1)
endforeach()
set(GDF_LAYER_rounds 5)
"""


class LintTest(unittest.TestCase):
    def tree(self, files):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in {"cmake/GdfModule.cmake": LAYERS, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    def findings(self, check, files):
        return [what for _, _, what in check(self.tree(files))]

    def test_layers(self):
        good = {"core/rounds/a.cc": '#include "core/net/b.h"\n#include "core/rounds/c.h"\n'}
        self.assertEqual(self.findings(lint.check_layers, good), [])
        for name, include in [("core/base/a.cc", "core/config/b.h"), ("core/config/a.h", "core/net/b.h"),
                              ("core/net/a.h", "gdfd/x.h"), ("gdfctl/a.cc", "core/net/b.h"), ("core/new/a.h", "core/base/a.h")]:
            self.assertEqual(len(self.findings(lint.check_layers, {name: f'#include "{include}"\n'})), 1, name)

    def test_fences(self):
        self.assertEqual(self.findings(lint.check_fences, {"core/config/a.cc": "#include <yaml-cpp/yaml.h>\n"}), [])
        for name, text in [("core/net/a.cc", "#include <yaml-cpp/yaml.h>"), ("gdfd/a.cc", "#include <torch/torch.h>"),
                           ("core/rounds/a.cc", "#include <thread>"), ("tests/unit/x/a_test.cc", "usleep(5);"),
                           ("core/net/a.cc", "auto t = absl::Now();"), ("gdfctl/a.cc", '#include "proto/control.pb.h"')]:
            self.assertEqual(len(self.findings(lint.check_fences, {name: text + "\n"})), 1, name)

    def test_coroutines(self):
        for good in ["auto f = [t] { return t; };\n  co_await Run(f);", "co_await a->b[1].Run(x, Make());",
                     "if (co_await Done()) {\n  }"]:
            self.assertEqual(self.findings(lint.check_coroutines, {"core/net/a.cc": good + "\n"}), [], good)
        for bad in ["co_await Run([t] { return t; });", "co_await Run(x, [](int a) -> int { return a; });",
                    "co_await Send(Request{id, text});", "co_await Send({id, text});"]:
            self.assertEqual(len(self.findings(lint.check_coroutines, {"core/net/a.cc": bad + "\n"})), 1, bad)

    def test_tests_registered(self):
        case = 'TEST_CASE("x") {}\n'
        self.assertEqual(self.findings(lint.check_tests_registered, {"tests/unit/base/a_test.cc": case}), [])
        self.assertEqual(self.findings(lint.check_tests_registered, {"tests/sim/a_test.cc": case, "tests/sim/CMakeLists.txt": "gdf_test(sim SOURCES a_test.cc)"}), [])
        for name in ["tests/unit/base/a.cc", "tests/sim/b_test.cc"]:
            self.assertEqual(len(self.findings(lint.check_tests_registered, {name: case})), 1, name)

    def test_texts(self):
        guarded = "#ifndef GDF_CORE_BASE_A_H_\n"
        self.assertEqual(self.findings(lint.check_texts, {"core/base/a.h": guarded, "core/base/README.md": "x\n"}), [])
        self.assertEqual(len(self.findings(lint.check_texts, {"core/base/a.h": "", "core/base/README.md": "x\n" * 16})), 2)

    def test_links(self):
        self.assertEqual(self.findings(lint.check_links, {"README.md": "[a](docs/b.md#c) [d](https://x.org/) [e](#f)\n", "docs/b.md": "[r](../README.md)\n"}), [])
        self.assertEqual(len(self.findings(lint.check_links, {"docs/b.md": "[a](gone.md)\n"})), 1)


if __name__ == "__main__":
    unittest.main()
