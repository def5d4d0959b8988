"""An observed failure in words: what somebody who hits the bug would see."""

from __future__ import annotations

import ast
import re
from typing import Literal

from race.core.failure_text import ObservedFailure

Symptom = Literal["hang", "crash", "absent", "silent", "wrong-value", "error"]

_LIMIT_TYPES = {
    "TimeoutError",
    "CancelledError",
    "Timeout",
    "TimeLimit",
    "BrokenBarrierError",
    "TooSlowError",
}
_NOT_RAISED = re.compile(r"DID NOT (RAISE|WARN)\b(?: any of)?[ (]*(?:<class ')?([A-Za-z_][\w.]*)?")
_STILL_WAITING = re.compile(
    r"where False = <(?:built-in|bound) method \w*\.?done of|where False = \w+\(?.*\.done\(?|"
    r"where True = <bound method \w*\.?is_alive of"
)
_ABSENT = re.compile(
    r"(has no attribute|cannot import name|No module named|unexpected keyword argument|"
    r"positional arguments? but|is not defined|does not have the attribute|multiple values for argument)"
)
_UNHANDLED = {
    "PytestUnhandledThreadExceptionWarning": "an error in another thread is handled by nobody",
    "PytestUnraisableExceptionWarning": "an error comes up where nobody can handle it",
}
"""Warnings of the runner that tell of an error, which is the last in their message."""
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.]*(?=: |$)")


def symptom_of(failure: ObservedFailure) -> Symptom:
    """The kind of a failure."""
    last = failure.error_type.rpartition(".")[2]
    if failure.outcome == "hang":
        return "hang"
    if failure.outcome == "crashed":
        return "crash"
    if _ABSENT.search(failure.message) and last in (
        "AttributeError", "ImportError", "ModuleNotFoundError", "TypeError", "NameError",
    ):  # fmt: skip
        return "absent"
    if _NOT_RAISED.search(failure.message):
        return "silent"
    if last in _LIMIT_TYPES or re.search(r"\btimed? ?out\b", failure.message, re.IGNORECASE):
        return "hang"
    if last in ("AssertionError", ""):
        return "hang" if _STILL_WAITING.search(failure.message) else "wrong-value"
    return "error"


def awaited_exception(failure: ObservedFailure) -> str:
    """The exception or warning that should have come and did not, by its last name."""
    found = _NOT_RAISED.search(failure.message)
    return (found[2] or "").rpartition(".")[2] if found else ""


def values_of(failure: ObservedFailure) -> tuple[str, str] | None:
    """(found, wanted) when the failure compares two plain values that are not cut short."""
    for line in failure.message.split("\n"):
        text = line.strip().removeprefix("AssertionError: ")
        if not text.startswith("assert ") or "..." in text or len(text) > 200:
            continue
        try:
            node = ast.parse(text).body[0]
        except (SyntaxError, ValueError):
            return None
        test = node.test if isinstance(node, ast.Assert) else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            sides = [_plain(test.left), _plain(test.comparators[0])]
            return (sides[0], sides[1]) if all(sides) and "N" not in sides else None
        return None
    return None


def _plain(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return "N" if node.id == "N" else ""
    try:
        text = repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""
    return text if len(text) <= 80 and "`" not in text else ""


def remark(failure: ObservedFailure) -> str:
    """What a failed check says in words of its own, before the values; empty when it says nothing."""
    first = failure.message.split("\n")[0].strip().removeprefix("AssertionError: ")
    if first.startswith("assert ") or failure.varies or not re.search(r"[a-z]{3,} [a-z]", first):
        return ""
    return first.rstrip(".") if len(first) <= 160 and "`" not in first else ""


def said(failure: ObservedFailure) -> str:
    """`Type: message` on one line, short enough to quote; only the type when it is long or varies."""
    last = failure.error_type.rpartition(".")[2]
    first = failure.message.split("\n")[0].strip()
    if last and first.startswith(f"{last}: "):
        first = first[len(last) + 2 :]
    quotable = bool(first) and len(first) <= 160 and "`" not in first and not failure.varies
    return f"{last}: {first}" if quotable else last


def _unhandled(failure: ObservedFailure, quote: bool) -> str:
    """What the runner warned of, when that is an error that reached nobody; empty otherwise."""
    phrase = _UNHANDLED.get(failure.error_type.rpartition(".")[2], "")
    lines = [line for line in failure.message.split("\n") if _ERROR_LINE.match(line)]
    name = _ERROR_LINE.match(lines[-1]) if lines else None
    if not phrase or name is None:
        return phrase
    line = lines[-1]
    inner = ObservedFailure(
        outcome="failed", error_type=name[0], message=line[name.end() + 2 :], varies=failure.varies
    )
    return f"{phrase}: `{said(inner) if quote else name[0].rpartition('.')[2]}`"


def in_words(failure: ObservedFailure, *, quote: bool) -> str:
    """The symptom as the end of a sentence. `quote` allows the observed message."""
    symptom = symptom_of(failure)
    own = remark(failure) if quote and failure.error_type in ("AssertionError", "") else ""
    if symptom == "hang":
        words = f" ({own})" if own else ""
        return f"it never finishes: the caller is left waiting forever{words}"
    if symptom == "crash":
        return "the interpreter ends abruptly instead of finishing"
    if symptom == "absent":
        return "it cannot be used as described under Interface, because that part is not there yet"
    if symptom == "silent":
        name = awaited_exception(failure)
        what = f"`{name}`" if name else "the expected error"
        return f"no {what} is seen: the wrong use or the failure passes in silence"
    values = values_of(failure)
    if symptom == "wrong-value" and values is not None:
        words = f"{own}: " if own else ""
        return f"the outcome is wrong: {words}`{values[0]}` was found where `{values[1]}` is right"
    if symptom == "wrong-value" and own:
        return f"the outcome is wrong: {own}"
    if symptom == "wrong-value":
        return "the outcome is not the expected one"
    unhandled = _unhandled(failure, quote)
    if unhandled:
        return unhandled
    text = said(failure) if quote else failure.error_type.rpartition(".")[2]
    after = " while cleaning up" if failure.phase == "teardown" else ""
    return f"it fails{after} with `{text}`"
