"""Runs a function where nothing of it can outlive it: a process id namespace of its own, whose end ends every process in it,
and a mount and an IPC namespace, so that no mount, no shared memory and no file under `folder` is left either. As root."""
import ctypes
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import traceback

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x20000, 0x8000000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class NotPermitted(Exception):
    pass


def check(result, what):
    if result != 0:
        raise NotPermitted(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(kind, target, options="", flags=0):
    check(LIBC.mount(b"none", str(target).encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode()), f"mounting {kind or target}")


def unmount(target):
    check(LIBC.umount2(str(target).encode(), 0), f"unmounting {target}")


def run(function):
    """function(folder)'s exit code. SIGTERM and SIGINT reach it as KeyboardInterrupt, once; a second one ends all at once."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gdf-chaos-"))
    child = 0
    try:
        check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID), "namespaces")
        child = os.fork()
        if child == 0:
            _inside(function, folder)
        heard = []

        def end(*_):
            os.kill(child, signal.SIGKILL if heard else signal.SIGINT)
            heard.append(1)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _inside(function, folder):
    code = 1
    try:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()  # Ctrl-C comes from the parent, once
        signal.signal(signal.SIGINT, signal.default_int_handler)
        mount("", "/", flags=MS_REC | MS_PRIVATE)
        mount("proc", "/proc")
        mount("tmpfs", "/dev/shm")
        code = function(folder)
    except KeyboardInterrupt:
        code = 130
    except NotPermitted as error:
        print(f"skipped: {error}", file=sys.stderr)
        code = 77
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def processes():
    """Of this namespace but this one and those that have ended: {pid: (name, parent)}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest.split()[0] not in "ZX":
            found[int(entry.name)] = (name, int(rest.split()[1]))
    return found
