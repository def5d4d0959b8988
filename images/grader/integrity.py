"""What a run must leave as it found it: the test runner, the event loop's code, clocks, the interpreter.

The worker takes a snapshot before any project code exists; a run compares after collection and after
its tests. What the project's own code changes with the reference fix in place is known from a trial
and tolerated. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import gc
import sys
import types

WATCHED = (
    "_pytest", "pytest", "pluggy", "asyncio", "_asyncio", "unittest", "time", "_thread", "threading",
    "queue", "concurrent", "selectors", "select", "random", "_random", "builtins", "os", "posix", "json",
    "signal", "contextlib", "gc", "sys", "inspect", "functools", "datetime", "types", "weakref", "io",
)  # fmt: skip
EXPECTED = frozenset(
    {"sys.excepthook", "sys.unraisablehook", "sys.displayhook", "sys.breakpointhook",
     "threading.excepthook", "_pytest.runner._update_current_test_var", "sys.exit", "io.open",
     "_pytest.config.Config._getini_unknown_type"}
)  # fmt: skip
"""Hooks that test runners and debuggers set as a matter of course, or that are not worth a look."""
_CODE = (types.FunctionType,)
_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


def _print_of(value: object) -> tuple:
    """What tells a function or class from another one, or from an altered one."""
    inner = (
        getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
    )
    if isinstance(inner, _CODE):
        return inner, inner.__code__, inner.__defaults__
    if isinstance(inner, types.MethodType):
        return inner.__func__, inner.__self__
    return (inner,)


def _same(before: tuple, after: tuple) -> bool:
    return len(before) == len(after) and all(
        one is other
        for one, other in zip(before, after)  # noqa: B905 - Python 3.8
    )


class Snapshot:
    """The watched modules as they are now."""

    def __init__(self) -> None:
        self._entries: list[tuple[dict, str, str, tuple]] = []
        for name, module in sorted(sys.modules.items()):
            if name.split(".")[0] in WATCHED and isinstance(module, types.ModuleType):
                self._take(name, module)

    def _take(self, name: str, module: types.ModuleType) -> None:
        for key, value in list(vars(module).items()):
            if not isinstance(value, _PLAIN) or "%s.%s" % (name, key) in EXPECTED:
                continue
            self._entries.append((vars(module), key, "%s.%s" % (name, key), _print_of(value)))
            if isinstance(value, type) and value.__module__ == name:
                for inner, member in list(vars(value).items()):
                    if isinstance(member, (*_PLAIN, staticmethod, classmethod)):
                        place = "%s.%s.%s" % (name, key, inner)
                        if place in EXPECTED:
                            continue
                        self._entries.append((vars(value), inner, place, _print_of(member)))

    def differences(self) -> list[str]:
        """Names of what is not as it was, and odd states of the interpreter."""
        found = []
        for space, key, name, before in self._entries:
            value = space.get(key)
            if value is None or not _same(before, _print_of(value)):
                found.append(name)
        found.extend(interpreter_state())
        return found


def interpreter_state() -> list[str]:
    """States of the interpreter that no test run starts with."""
    found = []
    if sys.gettrace() is not None:
        found.append("sys.settrace")
    if sys.getprofile() is not None:
        found.append("sys.setprofile")
    if abs(sys.getswitchinterval() - 0.005) > 1e-9:
        found.append("sys.setswitchinterval")
    if not gc.isenabled():
        found.append("gc.disable")
    events = sys.modules.get("asyncio.events")
    policy = getattr(events, "_event_loop_policy", None)
    if policy is not None:
        kind = type(policy)
        if kind.__module__.split(".")[0] not in ("asyncio", "uvloop"):
            found.append("event loop policy %s.%s" % (kind.__module__, kind.__qualname__))
    return found
