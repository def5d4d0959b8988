"""What a run must leave as it found it: the test runner, the event loop's code, clocks, the interpreter.

The worker takes a snapshot before any project code exists; a run compares after collection and after
its tests. What the project's own code changes with the reference fix in place is known from a trial
and tolerated. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import gc
import re
import sys
import types
from collections.abc import Collection
from operator import attrgetter, is_

WATCHED = (
    "_pytest", "pytest", "pluggy", "asyncio", "_asyncio", "unittest", "time", "_thread", "threading",
    "queue", "concurrent", "selectors", "select", "random", "_random", "builtins", "os", "posix", "json",
    "signal", "contextlib", "gc", "sys", "inspect", "functools", "datetime", "types", "weakref", "io",
    "abc", "_abc", "ast", "codecs", "collections", "copy", "dataclasses", "enum", "exceptiongroup",
    "heapq", "importlib", "itertools", "linecache", "marshal", "operator", "_operator", "re", "reprlib",
    "tokenize", "traceback", "_socket",
)  # fmt: skip
EXPECTED = frozenset(
    {"sys.excepthook", "sys.unraisablehook", "sys.displayhook", "sys.breakpointhook",
     "threading.excepthook", "_pytest.runner._update_current_test_var", "sys.exit", "io.open",
     "_pytest.config.Config._getini_unknown_type", "importlib.metadata.distributions"}
)  # fmt: skip
"""Hooks that test runners and debuggers set as a matter of course, or that are not worth a look."""
_TEST_SIDE = re.compile(r"(^|/)(conftest\.py$|test_[^/]*$|[^/]*_test\.py$|tests?/)")
STEERING = (
    "pytest_pyfunc_call", "pytest_runtest_protocol", "pytest_runtest_call", "pytest_runtest_setup",
    "pytest_runtest_teardown", "pytest_runtest_makereport", "pytest_runtest_logreport",
    "pytest_runtestloop", "pytest_runtest_logstart", "pytest_runtest_logfinish",
    "pytest_collection_modifyitems", "pytest_pycollect_makeitem", "pytest_sessionfinish",
    "pytest_fixture_setup",
)  # fmt: skip
_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_MEMBERS = (*_PLAIN, staticmethod, classmethod, property)
_HELD = (types.ModuleType, *_PLAIN)
_LOOP_MAKERS = ("asyncio", "uvloop")
_SAFE_OVERRIDES = frozenset(
    {"__module__", "__qualname__", "__name__", "__doc__", "__dict__", "__weakref__", "__slots__",
     "__init__", "__repr__", "__del__", "__annotations__", "__firstlineno__", "__static_attributes__",
     "__abstractmethods__", "_abc_impl", "run_in_executor", "default_exception_handler", "set_debug",
     "get_debug"}
)  # fmt: skip
"""What an event loop of the project's own may do its own way; it has no say in what a test is."""
_CODE, _DEFAULTS = attrgetter("__code__"), attrgetter("__defaults__")


class Watched:
    """What names in some namespaces stand for: the objects, and the code of those that are functions."""

    def __init__(self) -> None:
        self._spaces: dict[int, tuple[dict, list[str], list[object], list[str]]] = {}
        self._functions: list[types.FunctionType] = []
        self._codes: list[object] = []
        self._defaults: list[object] = []
        self._places: list[str] = []
        self._cells: list[tuple[types.CellType, object, str]] = []

    def __len__(self) -> int:
        names = sum(min(len(keys), len(values)) for _, keys, values, _ in self._spaces.values())
        return names + min(len(self._functions), len(self._codes), len(self._defaults))

    def take(self, space: dict, key: str, value: object, place: str) -> None:
        """Watch one name. `space` is the same object for all names of one namespace."""
        _, keys, values, places = self._spaces.setdefault(id(space), (space, [], [], []))
        keys.append(key)
        values.append(value)
        places.append(place)
        wrapped = isinstance(value, (staticmethod, classmethod, types.MethodType))
        inner = value.__func__ if wrapped else value
        if isinstance(inner, types.FunctionType):
            self._functions.append(inner)
            self._codes.append(inner.__code__)
            self._defaults.append(inner.__defaults__)
            self._places.append(place)
            for cell in inner.__closure__ or ():
                held = _content(cell)
                if isinstance(held, _PLAIN):
                    self._cells.append((cell, held, place))

    def differences(self) -> list[str]:
        """Names that stand for something else, or for a function whose code is not the same.

        All are compared in one go, and one by one only where that fails.
        """
        found = []
        for space, keys, values, places in self._spaces.values():
            if not all(map(is_, map(space.get, keys), values)):
                found += [places[row] for row, key in enumerate(keys)
                          if space.get(key) is not values[row]]  # fmt: skip
        for read, kept in ((_CODE, self._codes), (_DEFAULTS, self._defaults)):
            if not all(map(is_, map(read, self._functions), kept)):
                found += [self._places[row] for row, function in enumerate(self._functions)
                          if read(function) is not kept[row]]  # fmt: skip
        return found + [place for cell, held, place in self._cells if _content(cell) is not held]


def _content(cell: types.CellType) -> object:
    """What a closure's cell holds; None for an empty one."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


class Snapshot:
    """The watched modules as they are now, with those of `plugins` of the runner."""

    def __init__(self, plugins: Collection[str] = ()) -> None:
        self._runner, self._tests = Watched(), Watched()
        self._modules: list[tuple[str, types.ModuleType]] = []
        watched = {*WATCHED, *(name.split(".")[0] for name in plugins if name.startswith("pytest"))}
        for name, module in sorted(sys.modules.items()):
            known = name.split(".")[0] in watched or name in plugins
            if known and isinstance(module, types.ModuleType):
                self._modules.append((name, module))
                self._take(name, module)

    @property
    def size(self) -> list[int]:
        """How much is watched, of the runner and of the tests."""
        return [len(self._runner) + len(self._modules), len(self._tests)]

    def watch_tests(self, root: str) -> None:
        """Watch the modules of tests as well, now that they are imported: what their names stand for."""
        for name, module in sorted(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            if not path.startswith(root) or not _TEST_SIDE.search(path[len(root) :]):
                continue
            for key, value in list(vars(module).items()):
                if isinstance(value, _HELD) and key != "__builtins__":
                    self._tests.take(vars(module), key, value, "%s.%s" % (name, key))

    def _take(self, name: str, module: types.ModuleType) -> None:
        for key, value in list(vars(module).items()):
            if not isinstance(value, _HELD) or "%s.%s" % (name, key) in EXPECTED:
                continue
            self._runner.take(vars(module), key, value, "%s.%s" % (name, key))
            if isinstance(value, type) and value.__module__ == name:
                members = vars(value)
                for inner, member in list(members.items()):
                    place = "%s.%s.%s" % (name, key, inner)
                    if isinstance(member, _MEMBERS) and place not in EXPECTED:
                        self._runner.take(members, inner, member, place)

    def differences(self) -> list[str]:
        """Names of what is not as it was, and odd states of the interpreter."""
        found = self._runner.differences() + self._tests.differences()
        for name, module in self._modules:
            if sys.modules.get(name) is not module:
                found.append("sys.modules[%s]" % name)
        return found + interpreter_state()


def steering_hooks(manager: object) -> list[str]:
    """Who has a say in how tests are run and reported: hooks, with the plugins that implement them."""
    found = []
    for name in STEERING:
        for implementation in getattr(manager.hook, name).get_hookimpls():
            plugin = implementation.plugin_name
            if plugin.isdigit():
                plugin = type(implementation.plugin).__module__
            function = implementation.function
            own = getattr(implementation.plugin, getattr(function, "__name__", name), None)
            found.append("%s of %s%s" % (name, plugin, "" if own == function else ", replaced"))
    return found


def interpreter_state() -> list[str]:
    """States of the interpreter that no test run starts with."""
    found = []
    if sys.gettrace() is not None:
        found.append("sys.settrace")
    if sys.getprofile() is not None:
        found.append("sys.setprofile")
    if sys.getswitchinterval() > 0.005 + 1e-9:  # longer than usual, so that threads meet less often
        found.append("sys.setswitchinterval")
    if not gc.isenabled():
        found.append("gc.disable")
    return found + _policy_state()


def _policy_state() -> list[str]:
    """An event loop policy, unless it is asyncio's own or its loops run tests as asyncio's do."""
    policy = getattr(sys.modules.get("asyncio.events"), "_event_loop_policy", None)
    if policy is None:
        return []
    kind = type(policy)
    if _is_known(kind) and not any(hasattr(kind, name) for name in vars(policy)):
        return []
    told = ["event loop policy %s.%s" % (kind.__module__, kind.__qualname__)]
    pretends = not _is_known(kind) and kind.__module__.split(".")[0] in _LOOP_MAKERS
    if pretends or _overridden(policy) - {"new_event_loop", "_loop_factory"}:
        return told
    try:
        loop = policy.new_event_loop()
        overridden = _overridden(loop)
        plain = getattr(loop, "_task_factory", None) is None
        loop.close()
    except BaseException:  # noqa: BLE001 - foreign code
        return told
    return [] if plain and not overridden else told


def _is_known(kind: type) -> bool:
    """Is this class one of asyncio's or uvloop's own, and does it not only say so?"""
    named = vars(sys.modules.get(kind.__module__, types)).get(kind.__qualname__)
    return named is kind and kind.__module__.split(".")[0] in _LOOP_MAKERS


def _overridden(thing: object) -> set[str]:
    """Names that an object or its classes have otherwise than the asyncio class that they come from."""
    kinds = type(thing).__mro__
    known = next((place for place, kind in enumerate(kinds) if _is_known(kind)), len(kinds))
    if known == len(kinds):
        return {"all"}
    own = {name for kind in kinds[:known] for name in vars(kind)}
    own |= {name for name in vars(thing) if callable(getattr(kinds[known], name, None))}
    return {name for name in own - _SAFE_OVERRIDES if hasattr(kinds[known], name)}
