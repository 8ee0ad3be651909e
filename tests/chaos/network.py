"""Nodes of one network of gdfd processes, each in a network namespace of its own behind a slow link, with its state on a
small disk of its own and a calendar clock of its own."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import threading
import time

import sealed

READY_SECONDS = 60
STOP_SECONDS = 60
CALL_SECONDS = 30


class Failure(Exception):
    """What the network must not do."""


class Links:
    def __init__(self, program, nodes, mbit, rtt_ms):
        self.process = subprocess.Popen([program, str(nodes), str(mbit), str(rtt_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise sealed.NotPermitted(f"shaped links, status {self.process.wait()}")
        self.places = json.loads(line)
        self.lock = threading.Lock()

    def tell(self, what, node):
        with self.lock:
            self.process.stdin.write(f"{what} {node}\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != "done\n":
                raise Failure(f"the links do not {what} node {node}")

    def inside(self, node):
        return ["nsenter", f"--net={self.places[node]['namespace']}"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


class Node:
    def __init__(self, number, programs, links, clock_library, folder, disk_mib):
        self.number, self.name, self.links, self.programs = number, f"node{number + 1}", links, programs
        self.folder = folder / self.name
        self.state = self.folder / "state"
        self.state.mkdir(parents=True)
        sealed.mount("tmpfs", self.state, f"size={disk_mib}m,mode=700")
        self.clock_file = self.folder / "clock"
        self.clock_library = clock_library
        self.set_clock(0)
        (self.folder / "gdfd.yaml").write_text("port_mapping: false\nlog: {level: debug}\nlimits: {cpu_threads: 1, tasks: 1}\n")
        self.process = None
        self.starts = 0

    def start(self):
        address = self.links.places[self.number]["address"]
        read_end, write_end = os.pipe()
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.links.inside(self.number) +
                [self.programs / "gdfd", "--config", self.folder / "gdfd.yaml", "--state-dir", self.state, "--control-socket", self.folder / "socket",
                 "--listen", f"{address}:7420", "--name", self.name, "--ready-fd", str(write_end)],
                env={**os.environ, "LD_PRELOAD": str(self.clock_library), "GDF_SHIFTED_CLOCK": str(self.clock_file)},
                pass_fds=[write_end], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        os.close(write_end)
        timer = threading.Timer(READY_SECONDS, self.process.kill)
        timer.start()
        with os.fdopen(read_end) as ready:
            heard = ready.readline().strip()
        timer.cancel()
        if heard != "ready":
            raise Failure(f"{self.name} does not start: {self.log()[-3000:]}")
        self.starts += 1

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9: its worker must end by itself."""
        workers = self.workers()
        self.process.kill()
        self.process.wait()
        await_gone(workers, f"workers of {self.name}, whose gdfd was killed,")

    def stop(self):
        workers = self.workers()
        self.process.terminate()
        try:
            code = self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not end within {STOP_SECONDS} s of SIGTERM") from None
        if code != 0:
            raise Failure(f"{self.name} ends with {code} after SIGTERM: {self.log()[-3000:]}")
        await_gone(workers, f"workers of {self.name}, which has ended,")

    def workers(self):
        return [pid for pid, (name, parent) in sealed.processes().items() if parent == self.process.pid and name == "gdf-worker"]

    def set_clock(self, seconds):
        if not self.clock_file.exists():
            self.clock_file.write_bytes(bytes(8))
        with open(self.clock_file, "r+b") as file:  # the daemon has it mapped
            file.write(struct.pack("d", seconds))

    def link(self, up):
        subprocess.run(self.links.inside(self.number) + ["ip", "link", "set", "link0", "up" if up else "down"], check=True)

    def command(self, *arguments):
        return [self.programs / "gdfctl", "--socket", self.folder / "socket", "--json", *map(str, arguments)]

    def lines(self, *arguments, seconds=CALL_SECONDS):
        """(exit code, the objects it printed, standard error); code -1 when it did not end in time."""
        try:
            done = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return -1, [], f"no end within {seconds} s"
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def ask(self, *arguments, seconds=CALL_SECONDS):
        """The same of a command that prints one object, which is None where it printed none."""
        code, objects, error = self.lines(*arguments, seconds=seconds)
        return code, objects[0] if objects else None, error

    def need(self, *arguments):
        code, answer, error = self.ask(*arguments)
        if code != 0:
            raise Failure(f"gdfctl {' '.join(map(str, arguments))} of {self.name} ends with {code}: {error}")
        return answer

    def log(self):
        return (self.folder / "log").read_text(errors="replace")


def await_gone(pids, what, seconds=15):
    until = time.monotonic() + seconds
    while any(pid in sealed.processes() for pid in pids):
        if time.monotonic() > until:
            raise Failure(f"{what} still run after {seconds} s")
        time.sleep(0.05)


class Network:
    """`size` nodes, of which the first `coordinators` coordinate; all may submit and administrate."""

    def __init__(self, build, folder, size, coordinators, mbit, rtt_ms, disk_mib):
        self.links = Links(build / "tests/chaos/chaos_links", size, mbit, rtt_ms)
        self.nodes = [Node(i, build / "bin", self.links, build / "tests/chaos/libchaos_clock.so", folder, disk_mib) for i in range(size)]
        for node in self.nodes:
            node.start()
        first = self.nodes[0]
        first.need("network", "create", "chaos")
        invite = first.need("invite", "--role", "admin,contributor", "--ttl", "1h", "--uses", size - 1)["invite"]
        for node in self.nodes[1:]:
            node.need("join", invite)
        for node in self.nodes[1:coordinators]:
            first.need("coordinator", "add", node.name)

    def stop(self):
        """Ends all nodes; what is wrong with how they ended."""
        wrong = []
        for node in self.nodes:
            try:
                if node.process.poll() is None:
                    node.stop()
                else:
                    wrong.append(f"{node.name} had ended by itself with {node.process.returncode}: {node.log()[-3000:]}")
            except Failure as failure:
                wrong.append(str(failure))
        self.links.close()
        left = sealed.processes()
        if left:
            wrong.append(f"processes are left: {left}")
        shared = [path.name for path in pathlib.Path("/dev/shm").iterdir()]
        if shared:
            wrong.append(f"shared memory is left: {shared}")
        mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        expected = {str(node.state) for node in self.nodes}
        extra = [m for m in mounts if "gdf" in m and m not in expected]
        if extra:
            wrong.append(f"mounts are left: {extra}")
        for node in self.nodes:
            sealed.unmount(node.state)  # refused while anything there is open
        return wrong
