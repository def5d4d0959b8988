"""Scripted agents: what they type is worked out from the reference fix, so their skill is simulated.

They exist for sample releases, where the whole path has to run without any model. They go through the
same scaffold, container and grading as a model would; only the deciding is a script. Whatever is made
from their runs says "scripted".
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from race.core.mining.diffs import Section, sections
from race.core.mining.split import size
from race.errors import UsageError

PREFIX = "scripted/"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_PLACE = re.compile(rb"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)
EASY, LONG = 10, 60
"""Changed lines: a fix up to EASY is easy for every script, one above LONG too long for most."""


@dataclass(frozen=True)
class Skill:
    """A script's simulated skill: which fixes it knows at which attempt, and how it goes about it."""

    solves: Callable[[int, int], bool]
    """(changed lines, a number that differs from attempt to attempt) -> whether it knows the fix."""
    looks: bool
    checks: bool


SKILLS = {
    "scripted/steady": Skill(lambda lines, _: lines <= LONG, looks=True, checks=True),
    "scripted/half": Skill(
        lambda lines, turn: lines <= EASY or (lines <= LONG and turn % 2 == 0),
        looks=False,
        checks=True,
    ),
    "scripted/stubborn": Skill(lambda _, turn: turn % 3 != 0, looks=True, checks=False),
    "scripted/idle": Skill(lambda _lines, _turn: False, looks=False, checks=False),
}


def script(agent: str, fix: bytes, instance_id: str, attempt: int) -> list[str]:
    """The commands that a scripted agent types, the same every time. Attempts count from 1.

    Raises UsageError for a name that is no scripted agent.
    """
    skill = SKILLS.get(agent)
    if skill is None:
        raise UsageError(f"no scripted agent {agent!r}; there are {', '.join(sorted(SKILLS))}")
    parts = list(sections(fix))
    turn = hashlib.sha256(f"{agent} {instance_id}".encode()).digest()[0] + attempt
    commands = ["git status --short && ls"]
    if skill.looks:
        commands += [f"head -n 60 {shlex.quote(part.path)}" for part in parts]
    if agent == "scripted/idle":
        return [*commands, SUBMIT]
    if skill.solves(size(parts), turn):
        for part in parts:
            for piece in _pieces(part):
                commands += [_look(part.path, piece)] if skill.looks else []
                commands.append(_applied(piece))
    else:
        commands += [_guess(parts)]
    if skill.checks:
        commands.append("python -m pytest -q -x 2>&1 | tail -n 3")
    return [*commands, SUBMIT]


def simulated_tokens(statement: str, commands: Sequence[str]) -> tuple[int, int, int]:
    """Uncached, cached and written tokens that such a run might have taken: a made-up figure.

    A token for four characters, 200 for each command's output, and all that was said before cached.
    """
    uncached, cached, written, said = 0, 0, 0, 0
    fresh = 300 + len(statement) // 4
    for command in commands:
        uncached += fresh
        cached += said
        answer = 20 + len(command) // 4
        written += answer
        said += fresh + answer
        fresh = 200
    return uncached, cached, written


def _pieces(part: Section) -> list[bytes]:
    """A file's changes as patches of one hunk each, to be applied one after another."""
    if part.binary or part.modes:
        return [part.data]
    old, new = part.head.splitlines(keepends=True)[-2:]
    bounds = [*_hunk_starts(part.data), len(part.data)]
    return [old + new + part.data[a:b] for a, b in pairwise(bounds)]


def _hunk_starts(data: bytes) -> list[int]:
    found, at = [], data.find(b"\n@@ ")
    while at != -1:
        found.append(at + 1)
        at = data.find(b"\n@@ ", at + 1)
    return found


def _look(path: str, patch: bytes) -> str:
    """A look at the lines that are to be changed."""
    place = _PLACE.search(patch)
    start, lines = (int(place[1]), int(place[2] or 1)) if place else (1, 20)
    return f"sed -n '{max(1, start - 10)},{start + lines + 10}p' {shlex.quote(path)}"


def _applied(patch: bytes) -> str:
    try:
        text = patch.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or "\0" in text or "\r" in text:
        return f"echo {base64.b64encode(patch).decode()} | base64 -d | git apply -"
    return f"git apply - <<'THE_CHANGE'\n{text}THE_CHANGE"


def _guess(parts: Sequence[Section]) -> str:
    """What a script does that does not know the fix: a change that mends nothing."""
    code = [part.path for part in parts if part.path.endswith(".py") and not part.modes]
    if not code:
        return "echo 'no idea' > NOTES.txt"
    return f"echo '# TODO: look at this again' >> {shlex.quote(code[0])}"
