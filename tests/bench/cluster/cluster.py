"""A network of gdfd processes on loopback or over a shaped link, for benchmarks. They end with the `with` block."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


class Cluster:
    """`nodes` daemons in one network; `gdfctl(1, ...)` speaks to the first, its coordinator. With `mbit` there are two of
    them, each in a network namespace of its own, and a link of so many Mbit/s each way between them (as root)."""

    def __init__(self, programs, nodes, threads=1, mbit=None):
        self.programs = pathlib.Path(programs).resolve()
        self.threads = threads
        self.count = nodes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gdf-bench-"))
        self.processes = []
        self.seconds_to_ready = []
        self.mbit = mbit
        self.namespaces = [f"gdf-bench-{os.getpid()}-{number}" for number in range(1, nodes + 1)] if mbit else []
        if mbit and nodes != 2:
            raise ValueError("a shaped link joins two nodes")

    def __enter__(self):
        try:
            if self.mbit:
                self._shape()
            for number in range(1, self.count + 1):
                self._start(number)
            self.gdfctl(1, "network", "create", "bench")
            if self.count > 1:
                invite = self.gdfctl(1, "invite", "--role", "contributor", "--ttl", "1h", "--uses", str(self.count - 1))
                for number in range(2, self.count + 1):
                    self.gdfctl(number, "join", invite["invite"])
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _shape(self):
        run = lambda *command: subprocess.run(command, check=True)
        for namespace in self.namespaces:
            run("ip", "netns", "add", namespace)
        a, b = self.namespaces
        run("ip", "link", "add", "link0", "netns", a, "type", "veth", "peer", "name", "link0", "netns", b)
        for number, namespace in enumerate(self.namespaces, 1):
            run("ip", "-n", namespace, "address", "add", f"10.201.0.{number}/30", "dev", "link0")
            for device in ("lo", "link0"):
                run("ip", "-n", namespace, "link", "set", device, "up")
            run("tc", "-n", namespace, "qdisc", "add", "dev", "link0", "root", "tbf", "rate", f"{self.mbit:.3f}mbit", "burst", "64kb", "latency", "100ms")

    def _start(self, number):
        state = self.folder / f"node{number}"
        state.mkdir()
        (state / "gdfd.yaml").write_text(f"port_mapping: false\nlimits: {{cpu_threads: {self.threads}}}\n")
        read_end, write_end = os.pipe()
        started = time.monotonic()
        with open(state / "log", "w") as log:
            inside = ["ip", "netns", "exec", self.namespaces[number - 1]] if self.mbit else []
            listen = f"10.201.0.{number}:0" if self.mbit else "127.0.0.1:0"
            process = subprocess.Popen(
                inside + [self.programs / "gdfd", "--config", state / "gdfd.yaml", "--state-dir", state / "state",
                 "--control-socket", state / "socket", "--listen", listen, "--name", f"node{number}",
                 "--ready-fd", str(write_end)], pass_fds=[write_end], stderr=log, start_new_session=True)
        self.processes.append(process)
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            if ready.readline().strip() != "ready":
                raise RuntimeError((state / "log").read_text())
        self.seconds_to_ready.append(time.monotonic() - started)

    def gdfctl(self, number, *arguments, raw=False):
        """What a command prints as JSON (or its text, with `raw`); an error ends the benchmark."""
        command = [self.programs / "gdfctl", "--socket", self.folder / f"node{number}" / "socket"]
        done = subprocess.run(command + ([] if raw else ["--json"]) + list(arguments), capture_output=True, text=True)
        if done.returncode != 0:
            logs = "".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("node*/log")))
            raise RuntimeError(f"gdfctl {' '.join(map(str, arguments))}: {done.stderr}\n{logs}")
        return done.stdout if raw or not done.stdout else json.loads(done.stdout)

    def train(self, job_yaml):
        """Submits a job, waits for its end and gives what `job show` says, with its rounds, the nodes' peaks of memory and what `plan` said of them."""
        path = self.folder / "job.yaml"
        path.write_text(job_yaml)
        planned = {"gdfd": 0, "gdf-worker": 0}
        for item in self.gdfctl(1, "plan", str(path))["host_memory"]:
            planned["gdfd" if item["name"].startswith("gdfd's") else "gdf-worker"] += item["bytes"] / 2**20
        job = self.gdfctl(1, "submit", str(path))["job"]
        waiting = subprocess.Popen([self.programs / "gdfctl", "--socket", self.folder / "node1" / "socket", "--quiet", "job", "wait", job],
                                   stdout=subprocess.DEVNULL)
        peaks = {"gdfd": 0, "gdf-worker": 0}
        while True:
            try:
                code = waiting.wait(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                self._note_peaks(peaks)
        if code != 0:
            raise RuntimeError(self.gdfctl(1, "job", "logs", job, raw=True))
        return {**self.gdfctl(1, "job", "show", job), "peak_mib": peaks, "planned_mib": {name: round(mib) for name, mib in planned.items()}}

    def _note_peaks(self, peaks):
        """Resident memory at its highest so far, in MiB, over all nodes, by program."""
        for process in self.processes:
            for pid in [process.pid, *pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]:
                try:
                    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
                    peaks[status["Name"].strip()] = max(peaks[status["Name"].strip()], int(status["VmHWM"].split()[0]) // 1024)
                except (FileNotFoundError, KeyError):  # it has just ended
                    pass
