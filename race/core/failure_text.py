"""A failure's message in the form that every run and every machine gives.

Addresses, paths of temporary folders, process and thread numbers, times, ports and line numbers
differ from run to run; what is left of a message can be recorded, compared and quoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from race.core.records import Closed

LENGTH = 400

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]{4,16}\b"), "0x…"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"(/tmp|/var/tmp|/dev/shm)(/[^\s'\":,;)\]}>]*)?"), "<temporary path>"),
    (re.compile(r"/opt/venv/lib/python[0-9.]+/site-packages/"), ""),
    (re.compile(r"/repo/"), ""),
    (re.compile(r"\b(Task|Thread|Worker|asyncio|ThreadPoolExecutor)([-_])\d+([-_]\d+)*"), r"\1\2N"),
    (re.compile(r"\b(pid|tid|ident|thread|fd|port|line|lineno)([ =:#]+)\d+", re.IGNORECASE), r"\1\2N"),
    (re.compile(r"\b(started|started daemon|stopped|stopped daemon|initial) \d{5,}\b"), r"\1 N"),
    (re.compile(r"(\.py):\d+"), r"\1:N"),
    (re.compile(r"\n+ *(Use -v to get more diff|\.\.\.Full output truncated.*)$"), ""),
    (re.compile(r"\b(127\.0\.0\.1|localhost|\[::1\])(:|', )\d+"), r"\1\2N"),
    (re.compile(r"\b\d+\.\d+(e[+-]?\d+)? ?(s|ms|us|seconds?|secs?|milliseconds?)\b"), r"N \2"),
    (re.compile(r"\b\d+\.\d{3,}(e[+-]?\d+)?\b"), "N"),
)  # fmt: skip
_FRAMES = re.compile(r"\n*Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)*")
"""A traceback up to the error that it leads to; where it runs through says nothing of the failure."""
_NUMBER = re.compile(r"\d+(\.\d+)?")


class ObservedFailure(Closed):
    """How a fail-to-pass test fails without the fix, over all its runs.

    `message` is empty when even the normalised text differed from run to run (`varies`); numbers
    that differed are written N.
    """

    outcome: str
    phase: str = ""
    error_type: str = ""
    message: str = ""
    varies: bool = False


def normalise(message: str, length: int = LENGTH) -> str:
    """A message without what differs between runs, at most `length` characters of it."""
    text = _FRAMES.sub("\n", message.replace("\r\n", "\n")).strip()
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    lines = [line.rstrip() for line in text.splitlines()]
    text = "\n".join(lines).strip()
    if len(text) > length:
        text = text[: length - 1].rstrip() + "…"
    return text


def agree(failures: Sequence[ObservedFailure]) -> ObservedFailure:
    """One failure from those of several runs: what they have in common.

    Messages that differ only in numbers keep their words; a hang beside a failure keeps the failure's
    kind out, since which of them is seen depends on the run.
    """
    if not failures:
        raise ValueError("no failure was observed")
    outcomes = sorted({failure.outcome for failure in failures})
    types = sorted({failure.error_type for failure in failures})
    phases = sorted({failure.phase for failure in failures})
    messages = {normalise(failure.message) for failure in failures}
    varies = any(failure.varies for failure in failures)
    if len(messages) > 1 or varies:
        messages = {_NUMBER.sub("N", text) for text in messages}
        varies = True
    alike = len(outcomes) == 1 and len(types) == 1
    return ObservedFailure(
        outcome=outcomes[0] if len(outcomes) == 1 else "failed",
        phase=phases[0] if len(phases) == 1 else "",
        error_type=types[0] if alike else "",
        message=messages.pop() if len(messages) == 1 and alike else "",
        varies=varies or not alike,
    )
