"""Perturbations of a test run, as a pytest plugin for validation; never part of grading.

Reads one JSON object from the environment variable RACE_PERTURB: {"variant": NAME, "seed": N}.

Each variant keeps to what Python and asyncio promise: callbacks keep their order, timers never fire
early, nothing is dropped. What it changes is what a busy machine changes anyway. Standard library
and pytest only; runs on every Python a task may need.
"""

import asyncio
import json
import os
import random
import sys
import time

import pytest

COMPETITORS = 2
STALL_SECONDS = 0.005
STALL_SHARE = 0.2
SWITCH_SECONDS = 1e-5


class JitterySelector:
    """A selector that now and then wakes up late and reports ready files in another order.

    The loop asks it once per iteration. A late wake-up is what a descheduled process sees; the order
    of files that are ready at the same time is promised by nobody.
    """

    def __init__(self, selector, rng):
        self._selector = selector
        self._rng = rng

    def select(self, timeout=None):
        """What the real selector reports, perhaps later, in any order."""
        events = self._selector.select(timeout)
        if self._rng.random() < STALL_SHARE:
            time.sleep(self._rng.random() * STALL_SECONDS)
        if len(events) > 1:
            self._rng.shuffle(events)
        return events

    def __getattr__(self, name):
        return getattr(self._selector, name)


def jitter(rng):
    """Give every event loop made from now on a jittery selector."""
    loop_class = asyncio.SelectorEventLoop
    original = loop_class.__init__

    def __init__(self, selector=None):
        original(self, selector)
        self._selector = JitterySelector(self._selector, rng)

    loop_class.__init__ = __init__


def use_uvloop():
    """Make uvloop the loop that asyncio.run and plain new loops get."""
    import warnings

    import uvloop

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def shuffle_items(items, rng):
    """Another order of the tests: of the files, and of functions and classes in a file.

    A class keeps the order of its own tests, which may lean on each other; what no test may lean on
    is which file, class or function of the module went before.
    """
    groups = {}
    for item in items:
        cls = getattr(item, "cls", None)
        owner = cls.__qualname__ if cls is not None else item.nodeid
        groups.setdefault((item.nodeid.split("::", 1)[0], owner), []).append(item)
    files = {}
    for key in groups:
        files.setdefault(key[0], []).append(key)
    order = sorted(files)
    rng.shuffle(order)
    result = []
    for path in order:
        keys = sorted(files[path])
        rng.shuffle(keys)
        for key in keys:
            result.extend(groups[key])
    items[:] = result


def compete(count):
    """Busy processes of the same user beside the tests, no children of the run; they end with it."""
    run = os.getpid()
    for _ in range(count):
        middle = os.fork()
        if middle:
            os.waitpid(middle, 0)
            continue
        if os.fork():
            os._exit(0)
        os.setsid()
        for handle in range(256):
            try:
                os.close(handle)
            except OSError:
                pass
        while True:
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                pass
            try:
                os.kill(run, 0)
            except OSError:
                os._exit(0)


class Perturbation:
    """A pytest plugin: what has to wait until pytest runs."""

    def __init__(self, variant, rng):
        self.variant = variant
        self.rng = rng

    def pytest_sessionstart(self):
        """Load begins when the run has become its own user, before anything is collected."""
        if self.variant == "competing-load":
            compete(COMPETITORS)

    def pytest_collection_modifyitems(self, items):
        """The order of the tests."""
        if self.variant in ("test-order", "hash-seed"):
            shuffle_items(items, self.rng)


def install(asked):
    """Set up {"variant": NAME, "seed": N} in this process; the pytest plugin that goes with it.

    A variant that is not of this file (the CPU quota is the container's, the hash seed the
    interpreter's) changes nothing here.
    """
    rng = random.Random(asked["seed"])
    variant = asked["variant"]
    if variant == "switch-interval":
        sys.setswitchinterval(SWITCH_SECONDS)
    elif variant == "jitter":
        jitter(rng)
    elif variant == "uvloop":
        use_uvloop()
    return Perturbation(variant, rng)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Install what the environment asks for, before any code of the project is imported."""
    asked = os.environ.pop("RACE_PERTURB", "")
    if asked:
        early_config.pluginmanager.register(install(json.loads(asked)), "race-perturbation")
