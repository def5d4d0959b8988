"""What a test does with the product, told in order and in words: the way to see the failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from race.core.interface.extract import Interface
from race.core.interface.symbols import Class, Function
from race.core.interface.uses import Use

MOST = 9
_ALONE = " as a task of its own"
_STARTS = re.compile(r"(^|\.)(create_task|ensure_future|start_soon|run_coroutine_threadsafe)$")
_TOGETHER = re.compile(r"(^|\.)(gather|as_completed|TaskGroup|create_task_group)$")
_CANCELS = re.compile(r"(^|[.)])cancel$")
_THREADED = re.compile(r"(^|\.)(Thread|submit|run_in_executor|to_thread|run_sync)$")
_COLLECTS = re.compile(r"(^|\.)gc\.collect$")


def short(name: str) -> str:
    """`Lock.acquire` of `anyio.Lock.acquire`, `open_file` of `anyio.open_file`."""
    parts = name.split(".")
    return ".".join(parts[-2:]) if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1]


def placed(interface: Interface, uses: Sequence[Use]) -> list[Use]:
    """The uses, with a call on an object of unknown class taken for a call of the one class that the
    test makes and that has such a method (`self.connection.ping()`)."""
    made = {
        id(use.owner): use.owner
        for use in uses
        if use.kind in ("call", "made") and isinstance(use.owner, Class)
        if not interface.after.is_test(use.owner.path)
    }
    found = []
    for use in uses:
        if use.kind == "loose-call" and not use.name.startswith("_"):
            owners = [(interface.before.member(cls, use.name), cls) for cls in made.values()]
            methods = [(one, cls) for one, cls in owners if isinstance(one, Function)]
            if len(methods) == 1 and not interface.before.is_test(methods[0][0].path):
                use = replace(use, kind="call", owner=methods[0][0], receiver=methods[0][1])
        found.append(use)
    return found


def steps_of(interface: Interface, uses: Sequence[Use]) -> list[str]:
    """The steps, at most nine, neighbours that are alike told once."""
    steps: list[str] = []
    for use in uses:
        for step in _step(interface, use, steps):
            last = steps[-1] if steps else ""
            if step.startswith(f"{last} with ") and last:
                steps[-1] = step
            elif step not in steps[-2:] and step.replace("call ", "start ") + _ALONE not in steps[-2:]:
                steps.append(step)
    return steps[:MOST] if len(steps) > 1 else []


def _step(interface: Interface, use: Use, steps: list[str]) -> list[str]:
    owner = use.owner
    if use.kind in ("call", "made") and isinstance(owner, (Class, Function)):
        if interface.after.is_test(owner.path):
            return []
        name = short(interface.public(owner, use.receiver))
        keywords = [word for word in use.keywords if not word.startswith("_")]
        few = 0 < len(keywords) <= 3
        given = f" with {', '.join(f'`{word}`' for word in keywords)}" if few else ""
        if isinstance(owner, Class) or owner.name in ("__init__", "__new__"):
            return [f"create `{name.removesuffix('.__init__').removesuffix('.__new__')}`{given}"]
        if any(part.startswith("_") for part in name.split(".")):
            return []
        return [f"call `{name}`{given}"]
    if use.kind == "member" and isinstance(owner, Class) and not use.name.startswith("_"):
        found = interface.after.member(owner, use.name)
        if isinstance(found, Function) and not interface.after.is_test(found.path):
            name = short(interface.public(found, owner))
            return [f"call `{name}`"] if not found.is_property else []
    if use.kind in ("outside", "loose-call"):
        return _around(use.name, steps)
    return []


def _around(name: str, steps: list[str]) -> list[str]:
    """A step that is about tasks and threads; it may reword the call before it."""
    last = steps[-1] if steps else ""
    if _STARTS.search(name) and last.startswith("call "):
        steps[-1] = last.replace("call ", "start ", 1) + _ALONE
        return []
    if _THREADED.search(name) and "thread" not in last:
        return ["do so from other threads"]
    if _TOGETHER.search(name):
        return ["let several tasks do this at the same time"]
    if _CANCELS.search(name):
        return ["cancel the task"]
    if _COLLECTS.search(name):
        return ["drop every reference and collect garbage"]
    return []
