"""What is done to nodes, at random moments of one seed."""
import os
import random
import signal
import threading
import time

from network import Failure

MOST_AT_ONCE = 2   # nodes that are disturbed at the same time
HOUR = 3600


def kill_daemon(node, rng, wait):
    node.kill()
    wait(rng.uniform(0, 15))
    node.start()


def kill_worker(node, rng, wait):
    """Waits for a worker to kill; gives whether there was one."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        workers = node.workers()
        if workers:
            os.kill(workers[0], signal.SIGKILL)
            return
        wait(0.1)
    return "there was no worker"


def stop_20_s(node, rng, wait):
    """The daemon alone, or with its worker, as when the machine sleeps."""
    stopped = [node.process.pid] + (node.workers() if rng.random() < 0.5 else [])
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait(20)
    finally:
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
    return f"{len(stopped)} processes"


def link_down(node, rng, wait):
    node.link(up=False)
    try:
        wait(rng.uniform(5, 25))
    finally:
        node.link(up=True)


def blackhole(node, rng, wait):
    node.links.tell("cut", node.number)
    try:
        wait(rng.uniform(5, 25))
    finally:
        node.links.tell("join", node.number)


def full_disk(node, rng, wait):
    filler = node.state / "filler"
    try:
        with open(filler, "wb", buffering=0) as file:
            while file.write(bytes(1 << 20)) > 0:
                pass
    except OSError:
        pass
    try:
        wait(rng.uniform(5, 20))
    finally:
        filler.unlink()


def upgrade(node, rng, wait):
    node.stop()
    node.start()


def corrupt_chunk(node, rng, wait):
    """A bit of one of the newest chunk files, so that checkpoints are hit and not only the dataset; gives which."""
    chunks = [path for path in (node.state / "chunks").rglob("*") if path.is_file() and "pins" not in path.parts and path.stat().st_size > 0]
    if not chunks:
        return "there was no chunk"
    path = rng.choice(sorted(chunks, key=lambda path: path.stat().st_mtime)[len(chunks) // 2:])
    at = rng.randrange(path.stat().st_size)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return path.name[:12]


def clock(node, rng, wait):
    seconds = rng.choice([-1, 1]) * rng.choice([5, 120, HOUR, 24 * HOUR, 400 * 24 * HOUR])
    node.set_clock(seconds)
    wait(rng.uniform(10, 25))
    node.set_clock(0)
    return f"by {seconds} s and back"


KINDS = {"kill -9 gdfd": kill_daemon, "kill -9 worker": kill_worker, "SIGSTOP 20 s": stop_20_s, "link down": link_down, "blackhole": blackhole,
         "full disk": full_disk, "upgrade": upgrade, "corrupt chunk": corrupt_chunk, "clock change": clock}


class Faults:
    """`count` faults, evenly of all kinds, at moments within `seconds`. A fault whose moment comes while two nodes are disturbed
    waits for one of them."""

    def __init__(self, network, seed, count, seconds, say):
        rng = random.Random(seed)
        kinds = [kind for _ in range(count // len(KINDS)) for kind in KINDS] + rng.sample(list(KINDS), count % len(KINDS))
        rng.shuffle(kinds)
        self.plan = [(at, kind, rng.getrandbits(64)) for at, kind in zip(sorted(rng.uniform(0, seconds) for _ in kinds), kinds)]
        self.network, self.say = network, say
        self.free = set(range(len(network.nodes)))
        self.done, self.failures = [], []
        self.changed = threading.Condition()
        self.ended = threading.Event()
        self.threads = []

    def run(self):
        """Returns when all have begun, or after end()."""
        begun = time.monotonic()
        for at, kind, seed in self.plan:
            if self.ended.wait(max(0, begun + at - time.monotonic())):
                return
            rng = random.Random(seed)
            with self.changed:
                self.changed.wait_for(lambda: self.ended.is_set() or len(self.network.nodes) - len(self.free) < MOST_AT_ONCE)
                if self.ended.is_set():
                    return
                number = rng.choice(sorted(self.free))
                self.free.discard(number)
            thread = threading.Thread(target=self._one, args=(kind, self.network.nodes[number], rng, begun))
            thread.start()
            self.threads.append(thread)

    def _one(self, kind, node, rng, begun):
        started = time.monotonic()
        note = None
        try:
            note = KINDS[kind](node, rng, self.ended.wait)
        except Failure as failure:
            note = str(failure)
            self.failures.append(f"{kind} of {node.name}: {failure}")
        fault = {"at_seconds": round(started - begun, 1), "seconds": round(time.monotonic() - started, 1), "kind": kind, "node": node.name}
        if note:
            fault["note"] = note
        self.say(fault)
        with self.changed:
            self.done.append(fault)
            self.free.add(node.number)
            self.changed.notify_all()

    def end(self):
        """Cuts short what goes on, and undoes it."""
        self.ended.set()
        with self.changed:
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()
