"""One pytest run, in a freshly forked process: become the user, find the project, run, end.

Everything that the project could use to steer pytest is decided here instead: the configuration
file and the root are named, the project's `addopts` are cut down to those that change how tests are
found or understood, plugins come only from the environment's own packages, and the process ends the
moment that pytest is through. Standard library and pytest only, Python 3.8 and newer.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import site
import sys
import time

CONFIG_NAMES = (
    "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg",
)  # fmt: skip
KEPT_OPTIONS = (
    "--import-mode", "--asyncio-mode", "--anyio-mode", "--strict-markers", "--override-ini", "--ignore",
    "--ignore-glob", "--deselect", "--pythonwarnings", "--doctest-modules", "--doctest-glob",
    "--doctest-continue-on-failure",
)  # fmt: skip
FLAGS = ("--strict-markers", "--doctest-modules", "--doctest-continue-on-failure")
KEPT_LETTERS = "pWom"
BLOCKED_PLUGINS = (
    "randomly", "random_order", "random-order", "reverse", "rerunfailures", "pytest_rerunfailures",
    "flaky", "repeat", "pytest_repeat", "sugar", "pytest-sugar", "cacheprovider", "pastebin",
)  # fmt: skip


def begin(
    snapshot: object, order_handle: int, event_handle: int, output_handle: int, stack_handle: int
) -> None:
    """The whole life of a run. Never returns to the worker's loop.

    What is the same for all runs is done before the order comes, which may be later or never.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.append(here)
    import cage
    import reporter

    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((null, 0), (output_handle, 1), (output_handle, 2)):
        os.dup2(handle, number)
    os.close(output_handle)
    _renew_streams()
    with os.fdopen(order_handle, "rb") as stream:
        data = stream.read()
    if not data:
        os._exit(0)
    order = json.loads(data)
    if "compile" in order:
        import bytecode

        bytecode.send(event_handle, order["root"], order["compile"], order["uid"])
        os._exit(0)
    tools = [__import__(name) for name in order["tools"]]
    sys.path.remove(here)
    channel = reporter.Channel(event_handle, order["nonce"])
    channel.send(event="born", pid=os.getpid(), size=snapshot.size)
    os.environ.clear()
    os.environ.update(order["environment"])
    cage.enter(order["uid"], order["limits"])
    os.chdir(order["root"])
    time.tzset()
    sys.argv[:] = ["pytest"]
    _name_main_file()
    stacks = os.fdopen(stack_handle, "w", encoding="utf-8", errors="replace")
    status = _run(order, channel, stacks, snapshot, tools)
    channel.end(status)


def _renew_streams() -> None:
    """Standard streams of what the handles are now: those of the worker take them for a file."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            encoding="utf-8",
            errors="surrogateescape" if number == 1 else "backslashreplace",
            line_buffering=number == 2,
        )
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)


def _name_main_file() -> None:
    """Name pytest's main file: children of multiprocessing import it, and they may not read ours."""
    main = sys.modules["__main__"].__dict__
    main.pop("__file__", None)
    if "pytest" in sys.modules:
        packaged = os.path.join(os.path.dirname(sys.modules["pytest"].__file__), "__main__.py")
        if os.path.exists(packaged):
            main["__file__"] = packaged


def _blocked() -> list[str]:
    return [word for name in BLOCKED_PLUGINS for word in ("-p", "no:" + name)]


def _run(order: dict, channel: object, stacks: object, snapshot: object, tools: list) -> int:
    import reporter

    for name in ("cage", "integrity", "reporter", "session", *order["tools"]):
        sys.modules.pop(name, None)
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    _read_path_files(packages)
    import pytest

    plugins = [reporter.Reporter(order, channel, stacks, snapshot), *tools]
    with _trusted_plugins(packages):
        return pytest.main(_arguments(order), plugins=plugins)


def _read_path_files(packages: list[str]) -> None:
    """What `site` does with .pth files, which is where an editable install says where it is."""
    known = {os.path.normcase(os.path.abspath(entry)) for entry in sys.path}
    for folder in packages:
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".pth") and not name.startswith("."):
                    site.addpackage(folder, name, known)


@contextlib.contextmanager
def _trusted_plugins(packages: list[str]):
    """While pytest runs, entry points are read from the environment's packages alone."""
    import importlib.metadata as metadata

    everywhere = metadata.distributions

    def distributions(**asked: object):
        return everywhere(**(asked or {"path": packages}))

    metadata.distributions = distributions
    try:
        yield
    finally:
        metadata.distributions = everywhere


def _arguments(order: dict) -> list[str]:
    root = order["root"]
    config, settings = find_config(root, order["files"])
    arguments = [
        "--rootdir=" + root,
        "--confcutdir=" + root,
        "-c",
        config or os.devnull,
        "-o",
        "addopts=",
        "-q",
        "--tb=" + order["traceback"],
        "--capture=no",
        "--color=no",
        "--continue-on-collection-errors",
    ]
    arguments += _blocked()
    arguments += kept_options(settings.get("addopts"))
    arguments += order["arguments"]
    if order["files"]:
        arguments += [os.path.join(root, name) for name in order["files"]]
    else:
        arguments += [os.path.join(root, name) for name in _words(settings.get("testpaths"))]
    return arguments


def find_config(root: str, files: list[str]) -> tuple[str, dict]:
    """The configuration file that pytest itself would take below `root`, and its settings."""
    from pathlib import Path

    from _pytest.config.findpaths import load_config_dict_from_file

    folders = [os.path.dirname(os.path.join(root, name)) for name in files] or [root]
    folder = os.path.commonpath(folders)
    while True:
        for name in CONFIG_NAMES:
            path = Path(folder, name)
            if path.is_file():
                settings = load_config_dict_from_file(path)
                if settings is not None:
                    plain = {key: getattr(value, "value", value) for key, value in settings.items()}
                    return str(path), plain
        if folder == root or not folder.startswith(root):
            return "", {}
        folder = os.path.dirname(folder)


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return shlex.split(value)
    return [str(word) for word in value] if isinstance(value, (list, tuple)) else []


def kept_options(addopts: object) -> list[str]:
    """The project's own options that change what a test is; the rest is ours to say.

    Coverage, parallel runs, order, verbosity, repeats and early ends are left out.
    """
    kept: list[str] = []
    words = iter(_words(addopts))
    for word in words:
        name, _, value = word.partition("=")
        if name in KEPT_OPTIONS:
            kept.append(word)
            if not value and name not in FLAGS:
                kept.append(next(words, ""))
        elif len(word) >= 2 and word[0] == "-" and word[1] in KEPT_LETTERS:
            pair = [word] if len(word) > 2 else [word, next(words, "")]
            named = pair[-1][2:] if len(pair) == 1 else pair[-1]
            if word[1] == "p" and named.strip().replace("no:", "") in ("xdist", *BLOCKED_PLUGINS):
                continue
            kept.extend(pair)
    return kept
