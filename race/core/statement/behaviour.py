"""What one fail-to-pass test is about: the product's parts it uses, the situation, what it expects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from race.core.interface.extract import Interface
from race.core.interface.symbols import Class, Function, Module
from race.core.interface.uses import Use
from race.core.records import Closed
from race.core.statement.steps import placed, short, steps_of

AROUND = re.compile(
    r"(^|\.)(create_task|create_task_group|start_soon|TaskGroup|start_task_soon|gather|sleep|"
    r"wait_all_tasks_blocked|run|run_sync|open_nursery|start_blocking_portal|checkpoint)$"
)
_CLOSING = {"close", "aclose", "stop", "shutdown", "disconnect", "terminate", "join", "__aexit__"}
_THREADS = re.compile(
    r"(^|\.)(Thread|ThreadPoolExecutor|run_in_executor|to_thread|Barrier|start_new_thread)$"
)
_TASKS = re.compile(
    r"(^|\.)(gather|create_task|ensure_future|start_soon|TaskGroup|create_task_group|as_completed|"
    r"open_nursery)$"
)
_LOOPS = re.compile(r"(^|\.)(new_event_loop|set_event_loop|run_until_complete|Runner)$")
_CONTEXT = re.compile(r"(^|\.)(ContextVar|copy_context)$")
_PROCESSES = re.compile(r"(^|\.)(Process|fork|Popen|create_subprocess_exec|kill|raise_signal)$")
_COLLECT = re.compile(r"(^|\.)(gc\.collect|weakref\.ref|ref)$")
_CANCEL = re.compile(r"(^|\.)(cancel|move_on_after|CancelScope|cancel_scope|uncancel)$")


CONCEPTS: dict[str, frozenset[str]] = {
    "cancelled": frozenset({"cancel", "uncancel"}),
    "closing": frozenset({"clos", "aclos", "shutdown", "stop", "teardown", "disconnect"}),
}
"""Situation -> stems that say it in a test's name. Words such as thread or context mean too much."""

_TAGS = (
    (_THREADS, "threads"), (_TASKS, "tasks"), (_LOOPS, "loops"), (_CONTEXT, "context"),
    (_PROCESSES, "processes"), (_COLLECT, "collected"), (_CANCEL, "cancelled"),
)  # fmt: skip


class Behaviour(Closed):
    """One test function without its name: safe to tell from.

    `subjects` are public names of the product that it calls, the likeliest first, and `changed`
    those of them that are defined where the fix changes something; `around` are those that only
    set the stage, such as starting tasks. `spoken` are subjects, and `concepts` situations, that the
    test's own name speaks of: what it is about more than anything else. `situation` are tags. `raises`
    are exceptions that it expects, `claims` what must hold of the product afterwards, in words.
    `steps` are what it does with the product, in order, in words.
    """

    subjects: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    situation: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def behaviour_of(interface: Interface, test_id: str) -> Behaviour:
    """The behaviour that a test exercises."""
    uses = placed(interface, interface.own_uses(test_id))
    hints = {stem(word) for word in _words(test_id.partition("[")[0])}
    subjects, changed = _subjects(interface, uses, hints)
    own = {stem(word) for word in _words(test_id.partition("[")[0].rpartition("::")[2])}
    concepts = sorted(tag for tag, stems in CONCEPTS.items() if own & stems)
    return Behaviour(
        subjects=tuple(subjects),
        changed=tuple(changed),
        around=tuple(name for name in subjects if AROUND.search(name)),
        spoken=tuple(
            name
            for name in subjects
            if not AROUND.search(name) and {stem(word) for word in _words(name.rpartition(".")[2])} & own
        ),
        concepts=tuple(concepts),
        situation=tuple(sorted({*_situation(interface, uses), *concepts})),
        raises=tuple(_raises(interface, uses)),
        claims=tuple(_claims(interface, uses)),
        steps=tuple(steps_of(interface, uses)),
    )


def stem(word: str) -> str:
    """A word without its commonest endings: `closing`, `closed` and `close` are `clos`."""
    word = word.lower()
    for ending in ("ations", "ation", "ings", "ing", "ers", "er", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word


def _words(text: str) -> set[str]:
    """The words of names, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", text) if len(word) > 2}


def _subjects(interface: Interface, uses: Sequence[Use], hints: set[str]) -> tuple[list[str], list[str]]:
    """Names that the test calls; those that its own name speaks of come first, by stems of its words."""
    found: dict[str, tuple[bool, bool]] = {}
    for use in uses:
        owner: Module | Class | Function | None = use.owner
        receiver = use.receiver  # the class that the method was taken from
        if use.kind == "member" and isinstance(owner, Class):
            method = interface.after.member(owner, use.name)
            if not isinstance(method, Function) or use.name.startswith("_"):
                continue
            owner, receiver = method, use.owner if isinstance(use.owner, Class) else None
        elif use.kind not in ("call", "made") or not isinstance(owner, (Class, Function)):
            continue
        if interface.after.is_test(owner.path):
            continue
        name = interface.public(owner, receiver)
        if owner.name.startswith("__"):
            name = name.rpartition(".")[0]
        private = any(part.startswith("_") for part in name.split("."))
        found.setdefault(name, (private, owner.path in interface.changes.paths))
    names = list(found)

    def rank(name: str) -> float:
        private, changed = found[name]
        spoken = len({stem(word) for word in _words(short(name))} & hints)
        return -(2 * spoken + changed - 3 * private - 2 * bool(AROUND.search(name)))

    names.sort(key=rank)
    return names, [name for name in names if found[name][1]]


def _situation(interface: Interface, uses: Sequence[Use]) -> list[str]:
    tags: set[str] = set()
    for use in uses:
        name = use.name
        if use.kind == "call" and isinstance(use.owner, (Class, Function)):
            name = interface.public(use.owner, use.receiver)
        if use.kind not in ("outside", "call", "loose-call", "member", "loose"):
            continue
        for pattern, tag in _TAGS:
            if pattern.search(name) and (use.kind == "outside" or tag in ("tasks", "cancelled")):
                tags.add(tag)
        last = name.rpartition(".")[2]
        if last in _CLOSING and use.kind in ("call", "loose-call", "outside") and last != "join":
            tags.add("closing")
    return sorted(tags)


def _raises(interface: Interface, uses: Sequence[Use]) -> Iterable[str]:
    names: dict[str, None] = {}
    for use in uses:
        if use.kind == "raises":
            is_class = isinstance(use.owner, Class) and not interface.after.is_test(use.owner.path)
            names[interface.public(use.owner) if is_class else use.name] = None  # type: ignore[arg-type]
    return names


def _claims(interface: Interface, uses: Sequence[Use]) -> Iterable[str]:
    words: dict[str, None] = {}
    for use in uses:
        if use.kind == "claim" and isinstance(use.owner, Function):
            words[f"what `{short(interface.public(use.owner))}` returns {use.context}"] = None
        if use.kind == "claim" and isinstance(use.owner, Class):
            holder = next(
                (
                    cls
                    for cls in interface.after.lineage(use.owner)
                    if not interface.after.is_test(cls.path)
                ),
                None,
            )
            if holder is not None and not use.name.startswith("_"):
                words[f"`{short(interface.public(holder))}.{use.name}` {use.context}"] = None
    return words
