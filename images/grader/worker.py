"""A pristine interpreter that has imported pytest and its plugins, nothing of the project, and forks.

Started by the launcher as `<venv python> -s -S worker.py <socket> [<trial.json>]`; the file names
modules of the environment that the tests import, so that runs need not. Each time that it is asked over
the socket it forks a process, which waits for its order, becomes the unprivileged user, and only then
looks at the project. A run therefore starts in a few milliseconds, in a process that nothing before it
has touched. The worker itself knows no test, no id and no secret: all that is in the order is read
after the fork. Standard library and pytest only, Python 3.8 and newer.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import site
import socket
import sys
import time

NOBODY = 65534


def import_pytest() -> None:
    """Import pytest from the environment's own packages; .pth files are left for the child."""
    addpackage = site.addpackage
    site.addpackage = lambda *_: None
    site.execsitecustomize = lambda: None
    site.execusercustomize = lambda: None
    try:
        site.main()
    finally:
        site.addpackage = addpackage
    import asyncio  # noqa: F401

    try:
        import _pytest.config
        import pytest  # noqa: F401
    except ImportError:
        return  # the project is pytest, or a part of it: the child imports it
    for name in _pytest.config.default_plugins:
        __import__("_pytest." + name)
    for name in (
        "_pytest.assertion.rewrite",
        "_pytest.config.findpaths",
        "importlib.metadata",
        "signal",
        "tomllib",
        "iniconfig",
    ):
        with contextlib.suppress(ImportError):
            __import__(name)


def import_plugins() -> list[str]:
    """Import the plugins that the environment's own packages bring, so that runs need not; their names.

    The project is not on the path yet: what needs it fails here and is imported by the run itself.
    Done without root's rights.
    """
    import importlib.metadata as metadata

    from _pytest.assertion.rewrite import AssertionRewritingHook
    from session import BLOCKED_PLUGINS

    AssertionRewritingHook._warn_already_imported = lambda self, name: None
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    preload = []
    if sys.argv[2:]:
        with open(sys.argv[2], encoding="utf-8", errors="surrogateescape") as stream:
            preload = json.load(stream).get("preload", [])
    names = [
        point.value.partition(":")[0]
        for found in metadata.distributions(path=packages)
        for point in found.entry_points
        if point.group == "pytest11" and point.name not in BLOCKED_PLUGINS
    ]
    os.seteuid(NOBODY)
    try:
        for name in names + preload:
            with contextlib.suppress(BaseException):
                __import__(name)
    finally:
        os.seteuid(0)
    if len(os.listdir("/proc/self/task")) > 1:  # what starts threads may not be forked
        os.execv(sys.executable, [sys.executable, "-s", "-S", *sys.argv[:2], "bare"])
    return names


def receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """One order and the file descriptors that came with it; empty when the launcher is gone."""
    room = socket.CMSG_SPACE(8 * 4)
    head, ancillary, _, _ = channel.recvmsg(8, room)
    handles = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            handles.frombytes(data[: len(data) - len(data) % handles.itemsize])
    return head, list(handles)


def fork() -> int:
    """Fork, with patience while what an earlier run has left still fills the process table."""
    for _ in range(500):
        with contextlib.suppress(OSError):
            return os.fork()
        time.sleep(0.01)
    return os.fork()


def main() -> None:
    """Serve orders until the launcher closes the socket."""
    gc.disable()  # until all that lasts is there
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    import_pytest()
    sys.path.append(here)
    import cage  # noqa: F401
    import integrity
    import session

    if "pytest" in sys.modules:
        import reporter  # noqa: F401
    bare = sys.argv[2:] == ["bare"] or "pytest" not in sys.modules
    plugins = [] if bare else import_plugins()
    sys.path.remove(here)
    snapshot = integrity.Snapshot(plugins)
    gc.freeze()
    gc.enable()
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.sendall(b"ready\n")
    while True:
        head, handles = receive(channel)
        if not head:
            os._exit(0)
        middle = fork()
        if middle == 0:
            # The middle process ends at once, so that the launcher inherits the run itself.
            if fork():
                os._exit(0)
            channel.close()
            session.begin(snapshot, *handles)
            os._exit(70)
        for handle in handles:
            os.close(handle)
        os.waitpid(middle, 0)


if __name__ == "__main__":
    main()
