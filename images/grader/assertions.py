"""Small edits of what asserts: each makes it false, or asserts something else that is false.

Edits replace a piece of the file's text, so that everything else in the file stays byte for byte.
Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import functools
import random
import re

import riddles

_WORDS = (b"limit", b"delay", b"size", b"seen", b"total", b"rounds", b"budget", b"most")
_ERRORS = (
    "ValueError", "RuntimeError", "TypeError", "KeyError", "TimeoutError", "ConnectionError",
    "AttributeError", "ZeroDivisionError", "LookupError", "BufferError", "EOFError",
)  # fmt: skip
_FLIPPED = {
    ast.Eq: b"!=", ast.NotEq: b"==", ast.Is: b"is not", ast.IsNot: b"is", ast.In: b"not in",
    ast.NotIn: b"in", ast.Lt: b">=", ast.GtE: b"<", ast.Gt: b"<=", ast.LtE: b">",
}  # fmt: skip
_EXACT = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons of which one is true exactly when its opposite is not, whatever is compared."""
_CHECKS = re.compile(r"(?i)(^|_)(check|verify|expect|ensure|compare|same|equals?|match(es)?|must)")
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Await)
_LOOSE = (b"approx", b"ANY", b"IsPartial", b"HasLen", b"IsInstance")
"""What compares equal to more than one constant."""
_OPPOSITES = {
    "assertEqual": "assertNotEqual", "assertTrue": "assertFalse", "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone", "assertIn": "assertNotIn", "assertGreater": "assertLessEqual",
    "assertIsInstance": "assertNotIsInstance", "assertLess": "assertGreaterEqual",
    "assertRegex": "assertNotRegex", "assertAlmostEqual": "assertNotAlmostEqual",
    "assert_called": "assert_not_called", "assert_awaited": "assert_not_awaited",
}  # fmt: skip
_OPPOSITES.update({there: back for back, there in _OPPOSITES.items()})
_OPPOSITES.update(assert_called_once="assert_not_called", assert_awaited_once="assert_not_awaited")
"""Asserting methods of unittest and its mocks, each with the one that passes when it does not."""


class Edit:
    """Replace `source[start:end]` by `text`.

    `sure`: does what it is for whenever the test itself passes, without a trial. `last`: at the end of
    its function. `owner` is empty when that is the test itself, `path` when the file is the test's own.
    """

    def __init__(
        self, kind: str, start: int, end: int, text: bytes, path: str = "", **flags: bool
    ) -> None:
        self.kind, self.start, self.end, self.text, self.path = kind, start, end, text, path
        self.sure, self.neutral = flags.get("sure", False), flags.get("neutral", False)
        self.last, self.owner = False, ""

    def written(self, draw: random.Random) -> bytes:
        """The new text. Numbers that it needs are drawn, far from what tests count to."""
        word = draw.choice(_WORDS)
        text = self.text.replace(b"{number}", str(draw.randrange(1200, 98000)).encode())
        return riddles.filled(text.replace(b"{word}", word), draw, word)


@functools.lru_cache(maxsize=64)
def text_of(source: bytes) -> Text:
    """The same for the same source: functions of one file share it."""
    return Text(source)


class Text:
    """A source file with the offsets of its lines, and the names of its functions."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in re.split(rb"(?<=\n)", source):
            self.lines.append(self.lines[-1] + len(line))
        self.defined = set(re.findall(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", source, re.MULTILINE))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node's text begins and ends."""
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def after(self, node: ast.AST) -> int:
        """Where the line begins that follows a node's last."""
        return self.lines[node.end_lineno] if node.end_lineno < len(self.lines) else len(self.source)

    def of(self, node: ast.AST) -> bytes:
        """A node's text."""
        start, end = self.span(node)
        return self.source[start:end]


def in_place(text: Text, nodes: list[ast.AST], top: set[int]) -> tuple[list[Edit], list[Edit]]:
    """Edits of what asserts among the nodes, and those that negate a whole condition; `top` are sure."""
    found: list[Edit] = []
    wrapped: list[Edit] = []
    for node in nodes:
        if isinstance(node, ast.Assert):
            sure = id(node) in top
            found.extend(_assert_edits(text, node, sure))
            wrapped.extend(_wrapped(text, node, sure))
        elif isinstance(node, ast.Call) and is_raises(node):
            found.extend(_swapped_errors(text, node))
        elif isinstance(node, ast.Call) and _asserts(_called(node)):
            found.extend(_opposite(text, node))
            for argument in node.args:
                found.extend(_other_values(text, argument, False))
        elif isinstance(node, ast.Call) and _checks(_called(node), text):
            found.extend(_arguments(text, node))
        elif isinstance(node, ast.If) and any(_fails(inner) for inner in node.body):
            wrapped.extend(_wrapped(text, node, False))
    return found, wrapped


def _assert_edits(text: Text, node: ast.Assert, sure: bool) -> list[Edit]:
    """The assertion flipped, or with another expected value."""
    start, end = text.span(node.test)
    whole, test = text.source[start:end], node.test
    strict = sure and not any(word in whole for word in _LOOSE)
    found = []
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        flipped = _FLIPPED.get(type(test.ops[0]))
        left, right = text.of(test.left), text.of(test.comparators[0])
        plain = whole.startswith(left) and whole.endswith(right) and b"\n" not in whole
        if flipped is not None and plain:
            exact = strict and isinstance(test.ops[0], _EXACT)
            found.append(Edit("flip", start, end, left + b" " + flipped + b" " + right, sure=exact))
        if isinstance(test.ops[0], (ast.Eq, ast.Is)):
            values = [edit for side in (test.comparators[0], test.left)
                      for edit in _other_values(text, side, strict)]  # fmt: skip
            found.extend(values or _changed(text, test.comparators[0]))
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if isinstance(test.operand, (*_ATOMS, ast.Compare)):
            found.append(Edit("flip", start, end, text.of(test.operand), sure=sure))
    elif isinstance(test, _ATOMS):
        found.append(Edit("flip", start, end, b"not " + whole, sure=sure))
    return found


def _opposite(text: Text, node: ast.Call) -> list[Edit]:
    """The method called that asserts the opposite."""
    other = _OPPOSITES.get(_called(node)) if isinstance(node.func, ast.Attribute) else None
    end = text.span(node.func)[1]
    return [Edit("flip", end - len(_called(node)), end, other.encode())] if other else []


def _fails(node: ast.AST) -> bool:
    """Is this a statement that makes a test fail?"""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _called(node.value) == "fail"
    raised = getattr(node, "exc", None) if isinstance(node, ast.Raise) else None
    name = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(name, ast.Name) and name.id == "AssertionError"


def _wrapped(text: Text, node: ast.AST, sure: bool) -> list[Edit]:
    """The whole condition negated, of an assertion or of what leads to a failure."""
    start, end = text.span(node.test)
    whole = text.source[start:end]
    if whole.count(b"(") != whole.count(b")"):
        return []
    return [Edit("wrapped", start, end, b"not (" + whole + b")", sure=sure)]


def _other_values(text: Text, node: ast.AST, sure: bool) -> list[Edit]:
    """The same comparison with another constant."""
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        return _other_values(text, node.elts[-1], sure)
    if not isinstance(node, ast.Constant):
        return []
    value = node.value
    if isinstance(value, bool):
        others = [repr(not value)]
    elif isinstance(value, int):
        others = [repr(value + 1), repr(value - 1 if value > 1 else value + 2)]
    elif isinstance(value, float):
        others = [repr(value * 2 + 1)]
    elif isinstance(value, str) and "\n" not in value:
        others = [repr(_other_word(value))]
    elif isinstance(value, bytes):
        others = [repr(value + b"s")]
    else:
        return []
    return [Edit("value", *text.span(node), other.encode(), sure=sure) for other in others]


def _changed(text: Text, node: ast.AST) -> list[Edit]:
    """Something else is expected than what stands somewhere else, in a parameter or a constant.

    What is equal to everything is unequal to nothing, so that the opposite alone would not find it.
    """
    if not isinstance(node, _ATOMS) or b"\n" in text.of(node):
        return []
    start, end = text.span(node)
    whole = text.of(node)
    return [Edit("value", start, end, other) for other in (whole + b" * 2", b"[" + whole + b"]")]


def _arguments(text: Text, node: ast.Call) -> list[Edit]:
    """Another constant is handed to a function of the same file, which may assert something about it."""
    found = []
    for value in [*node.args, *(keyword.value for keyword in node.keywords)]:
        found.extend(_other_values(text, value, False))
    for edit in found:
        edit.kind = "argument"
    return found


def _other_word(word: str) -> str:
    """A text that could stand in the same place."""
    for place in range(len(word) - 2, 0, -1):
        if word[place] != word[place + 1] and word[place : place + 2].isalnum():
            return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word + "s" if word else "none"


def _called(node: ast.Call) -> str:
    name = node.func
    return name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")


def _asserts(name: str) -> bool:
    return name.lower().startswith("assert") and name != "AssertionError"


def _checks(name: str, text: Text) -> bool:
    """Is this a function of the same file that is called as if it asserted what it is told?"""
    return name.encode() in text.defined and bool(_CHECKS.search(name))


def is_raises(node: ast.Call) -> bool:
    return _called(node) in ("raises", "assertRaises") and bool(node.args)


def _swapped_errors(text: Text, node: ast.Call) -> list[Edit]:
    """Another exception, or another message, is expected."""
    expected = text.of(node.args[0]).decode(errors="replace")
    names = [name for name in _ERRORS if name not in expected][:3]
    found = [Edit("error", *text.span(node.args[0]), name.encode()) for name in names]
    for keyword in node.keywords:
        if keyword.arg == "match" and isinstance(keyword.value, ast.Constant):
            found.extend(_other_values(text, keyword.value, False))
    return found
