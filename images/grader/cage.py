"""What keeps a test run inside its own user: ids, limits, the end of all its processes, clean floors.

Every run gets a user id of its own. When the run is over, everything that carries this id is ended
and every file that it left in a place that is open to all is removed, so that a run can neither
outlive itself nor leave a message for the next one. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import stat
import subprocess

OPEN_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/dev/mqueue", "/run/shm")
READ_PLACES = (
    "/", "/etc", "/home", "/dev", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname",
    "/etc/resolv.conf", "/tmp/report.json",
)  # fmt: skip
"""What lies in the container's own layer beside the repository, so that its times can change."""
MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where the kernel counts what it had to end, with control groups of version 2 and of version 1."""
HOME = "/home/tester"
_EVEN = 946684800
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 4, 38, 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of everything below it that loses its own parent."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def settle_names(hosts: str = "/etc/hosts", addresses: str = "/proc/net/if_inet6") -> None:
    """Let `localhost` lead to 127.0.0.1, and to ::1 only where that address is there.

    Without a network some engines name nothing, and others name an address that nobody can listen on.
    """
    try:
        with open(addresses, encoding="ascii") as stream:
            both = any(line.startswith("0" * 31 + "1 ") for line in stream)
    except OSError:
        both = False
    with contextlib.suppress(OSError):
        with open(hosts, encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.readlines()
        kept = [line for line in lines if both or line.split()[:1] != ["::1"]]
        if not any("localhost" in line.partition("#")[0].split()[1:] for line in kept):
            kept.insert(0, "127.0.0.1\tlocalhost\n")
        if kept != lines:
            with open(hosts, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.writelines(kept)


class Uids:
    """User ids for runs, drawn so that they say nothing about which run came first."""

    def __init__(self) -> None:
        self.used: list[int] = []

    def __call__(self) -> int:
        """An id that nobody had before, and that nobody else on this machine is likely to hold."""
        while True:
            uid = 20000 + int.from_bytes(os.urandom(4), "big") % 40000
            if uid not in self.used:
                self.used.append(uid)
                return uid


def prepare_user(uid: int) -> None:
    """Give the id a name and an empty home, as programs expect of a user."""
    for path, line in (
        ("/etc/passwd", "tester:x:%d:%d:tester:%s:/bin/sh\n" % (uid, uid, HOME)),
        ("/etc/group", "tester:x:%d:\n" % uid),
    ):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                kept = [entry for entry in stream if not entry.startswith("tester:")]
        except OSError:
            kept = []
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.writelines([*kept, line])
    remove(HOME)
    os.makedirs(HOME, mode=0o755)
    os.chown(HOME, uid, uid)


def enter(uid: int, limits: dict[str, int]) -> None:
    """Become the unprivileged user for good. For a forked child, before any foreign code runs.

    `limits`: `file_bytes` (largest file), `processes` (0: leave it to the container), `open_files`.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["file_bytes"], limits["file_bytes"]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits["open_files"], limits["open_files"]))
    if limits["processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.umask(0o022)


def end_all(uid: int) -> None:
    """End every process of this user, also those that fork faster than anyone can count.

    One kill(-1) reaches all of them at once in the kernel. For that moment this process wears the
    user's id as its effective one only: its real id is one that nobody has and its saved id is
    root, so that nothing of the user's may signal it back and no other root process is hit.
    """
    nobody_else = uid + 100000
    for _ in range(50):
        os.setresuid(nobody_else, uid, 0)
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            pass
        finally:
            os.setresuid(0, 0, 0)
        reap()
        if not processes_of(uid):
            return


_DEAD: dict[int, int] = {}


def reap() -> None:
    """Collect the dead without waiting."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _DEAD[pid] = status


def status_of(pid: int) -> int | None:
    """The wait status of a process that was below this one, or None while it lives."""
    reap()
    return _DEAD.pop(pid, None)


def processes_of(uid: int) -> list[int]:
    """Living processes of a user (zombies do not count)."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat("/proc/" + name).st_uid != uid and _real_uid(name) != uid:
                continue
            with open("/proc/%s/stat" % name, "rb") as stream:
                state = stream.read().rpartition(b")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state not in (b"Z", b"X"):
            found.append(int(name))
    return found


def _real_uid(name: str) -> int:
    with open("/proc/%s/status" % name, "rb") as stream:
        for line in stream:
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    return -1


def memory_of(uid: int) -> int:
    """Resident bytes of all processes of a user."""
    pages = 0
    for pid in processes_of(uid):
        try:
            with open("/proc/%d/statm" % pid, "rb") as stream:
                pages += int(stream.read().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return pages * resource.getpagesize()


def memory_kills() -> int | None:
    """How many processes of this container the kernel has ended for want of memory; None if not told."""
    for path in MEMORY_EVENTS:
        with contextlib.suppress(OSError, ValueError):
            with open(path, encoding="ascii") as stream:
                rows = dict(line.split() for line in stream)
            if "oom_kill" in rows:
                return int(rows["oom_kill"])
    return None


def disk_room() -> int:
    """Bytes that are free where tests can write."""
    found = os.statvfs("/tmp")
    return found.f_bavail * found.f_frsize


def sweep(uid: int, root: str) -> None:
    """Remove what a user left behind in open places and below `root`; its processes are dead."""
    remove(HOME)
    for place in OPEN_PLACES:
        _sweep_folder(place, uid)
    pending = [root]
    while pending:
        pending.extend(_sweep_folder(pending.pop(), uid))
    _sweep_ipc(uid)


def _sweep_folder(folder: str, uid: int) -> list[str]:
    """Remove entries that belong to the user; the folders that belong to others."""
    others = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if found.st_uid == uid:
            remove(entry.path)
        elif stat.S_ISDIR(found.st_mode) and entry.name != ".git":
            others.append(entry.path)
    return others


def remove(path: str) -> None:
    """Remove a file or a whole folder, however deep."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        try:
            shutil.rmtree(path)
        except (OSError, RecursionError):
            subprocess.run(["rm", "-rf", "--", path], check=False, stdout=-3, stderr=-3)
    elif os.path.lexists(path):
        os.unlink(path)


def _sweep_ipc(uid: int) -> None:
    """Remove the user's System V segments, queues and semaphores."""
    for kind, call in (("shm", "shmctl"), ("msg", "msgctl"), ("sem", "semctl")):
        try:
            with open("/proc/sysvipc/" + kind, encoding="ascii") as stream:
                rows = [line.split() for line in stream]
        except OSError:
            continue
        if not rows or "uid" not in rows[0]:
            continue
        where = rows[0].index("uid")
        for row in rows[1:]:
            if row[where] != str(uid):
                continue
            arguments = (int(row[1]), 0, 0) if kind == "sem" else (int(row[1]), 0, None)
            getattr(_LIBC, call)(*arguments)


def open_folders(root: str) -> None:
    """Let anyone create files in the folders below `root`, and nobody touch those of others.

    Times are made even, there and in all other places that a run can read or write: a file that comes
    and goes, or is read, would leave them as a message for the next run.
    """
    for path in READ_PLACES + OPEN_PLACES:
        with contextlib.suppress(OSError):
            os.utime(path, (_EVEN, _EVEN))
    for folder, names, files in os.walk(root):
        if ".git" in names:
            names.remove(".git")
        if stat.S_IMODE(os.lstat(folder).st_mode) != 0o1777:
            os.chmod(folder, 0o1777)
        os.utime(folder, (_EVEN, _EVEN))
        for name in files:
            path = os.path.join(folder, name)
            found = os.lstat(path)
            if found.st_atime_ns != found.st_mtime_ns:
                times = (found.st_mtime_ns, found.st_mtime_ns)
                os.utime(path, ns=times, follow_symlinks=False)
