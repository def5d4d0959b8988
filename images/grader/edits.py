"""Small edits of a test function: each makes it false, or (neutral) leaves it as true as it was.

Edits replace a piece of the file's text, so that everything else in the file stays byte for byte.
Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import random
import re

_ERRORS = (
    "ValueError", "RuntimeError", "TypeError", "KeyError", "TimeoutError", "ConnectionError",
    "AttributeError", "ZeroDivisionError", "LookupError", "BufferError", "EOFError",
)  # fmt: skip
_PURE_CALLS = frozenset(
    {"len", "list", "tuple", "set", "sorted", "str", "repr", "int", "bool", "sum", "max", "min", "dict"}
)
_WORDS = (b"limit", b"delay", b"size", b"seen", b"total", b"rounds", b"budget", b"most")
_FLIPPED = {
    ast.Eq: b"!=", ast.NotEq: b"==", ast.Is: b"is not", ast.IsNot: b"is", ast.In: b"not in",
    ast.NotIn: b"in", ast.Lt: b">=", ast.GtE: b"<", ast.Gt: b"<=", ast.LtE: b">",
}  # fmt: skip
_EXACT = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons of which one is true exactly when its opposite is not, whatever is compared."""
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Await)
_LOOSE = (b"approx", b"ANY", b"IsPartial", b"HasLen", b"IsInstance")
"""What compares equal to more than one constant."""
_COMMON = frozenset(
    {"pytest", "asyncio", "self", "mock", "time", "sys", "os", "threading", "Any", "anyio", "trio"}
)


INNER = "inner"
"""The kind of all edits within functions that a test defines for itself."""


class Edit:
    """Replace `source[start:end]` by `text`.

    `sure`: does what it is for whenever the test itself passes, without a trial.
    """

    def __init__(self, kind: str, start: int, end: int, text: bytes, **flags: bool) -> None:
        self.kind, self.start, self.end, self.text = kind, start, end, text
        self.sure, self.neutral = flags.get("sure", False), flags.get("neutral", False)

    def written(self, draw: random.Random) -> bytes:
        """The new text. Numbers that it needs are drawn, far from what tests count to."""
        text = self.text.replace(b"{number}", str(draw.randrange(1200, 98000)).encode())
        return text.replace(b"{word}", draw.choice(_WORDS))


class Text:
    """A source file with the offsets of its lines."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in re.split(rb"(?<=\n)", source):
            self.lines.append(self.lines[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node's text begins and ends."""
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> bytes:
        """A node's text."""
        start, end = self.span(node)
        return self.source[start:end]


def name_place(source: bytes, function: ast.AST) -> tuple[int, int]:
    """Where a function's name stands."""
    text = Text(source)
    start = text.lines[function.lineno - 1] + function.col_offset
    match = re.compile(rb"(?:async\s+)?def\s+").match(source, start)
    begin = match.end() if match else start
    return begin, begin + len(function.name.encode())


def edits_of(source: bytes, function: ast.AST) -> list[Edit]:
    """Every edit that can be made to a test function, in a fixed order.

    Edits in place come first: what they leave is a test like any other. What shows (an added line, a
    whole condition in parentheses) is made only of tests that have no place for the others.
    """
    text = Text(source)
    nodes = own_nodes(function)
    early = any(isinstance(node, ast.Return) for node in nodes)
    found, wrapped = _in_place(text, nodes, set() if early else {id(node) for node in function.body})
    if not found:
        found = wrapped + _final_edits(text, function, nodes)
    inner, inner_wrapped = _in_place(text, inner_nodes(nodes), set())
    for edit in inner or inner_wrapped:
        edit.kind = INNER
    return found + _first_time(text, function) + (inner or inner_wrapped)


def _in_place(text: Text, nodes: list[ast.AST], top: set[int]) -> tuple[list[Edit], list[Edit]]:
    """Edits of what asserts among the nodes, and those that negate a whole condition; `top` are sure."""
    found: list[Edit] = []
    wrapped: list[Edit] = []
    for node in nodes:
        if isinstance(node, ast.Assert):
            sure = id(node) in top
            found.extend(_assert_edits(text, node, sure))
            wrapped.extend(_wrapped(text, node, sure))
        elif isinstance(node, ast.Call) and _is_raises(node):
            found.extend(_swapped_errors(text, node))
        elif isinstance(node, ast.Call) and _called(node).lower().startswith("assert"):
            for argument in node.args:
                found.extend(_other_values(text, argument, False))
    return found, wrapped


def own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function's body in order, without the insides of functions and classes in it."""
    found: list[ast.AST] = []
    pending = list(reversed(function.body))
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def inner_nodes(nodes: list[ast.AST]) -> list[ast.AST]:
    """What lies in functions that a test defines for itself, such as the coroutine that it then runs.

    Whatever runs them can swallow what they raise, so that a false assertion outside shows nothing.
    """
    found: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = own_nodes(node)
            found += own + inner_nodes(own)
    return found


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
            for side in (test.comparators[0], test.left):
                found.extend(_other_values(text, side, strict))
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if isinstance(test.operand, (*_ATOMS, ast.Compare)):
            found.append(Edit("flip", start, end, text.of(test.operand), sure=sure))
    elif isinstance(test, _ATOMS):
        found.append(Edit("flip", start, end, b"not " + whole, sure=sure))
    return found


def _wrapped(text: Text, node: ast.Assert, sure: bool) -> list[Edit]:
    """The whole condition negated."""
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


def _other_word(word: str) -> str:
    """A text that could stand in the same place."""
    for place in range(len(word) - 2, 0, -1):
        if word[place] != word[place + 1] and word[place : place + 2].isalnum():
            return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word + "s" if word else "none"


def _called(node: ast.Call) -> str:
    name = node.func
    return name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")


def _is_raises(node: ast.Call) -> bool:
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


def _room(text: Text, function: ast.AST) -> tuple[int, bytes] | None:
    """Where a function's first statement begins a line of its own, and how far it is indented."""
    first = function.body[0]
    line = text.lines[first.lineno - 1]
    indent = text.source[line : line + first.col_offset]
    if indent.strip() or first.lineno == function.lineno or getattr(first, "decorator_list", ()):
        return None
    return line, indent


def _first_time(text: Text, function: ast.AST) -> list[Edit]:
    """One more assertion at the start, which fails the first time that it is reached, then never.

    Whatever runs a test again until it passes is found out by it. The neutral one never fails.
    """
    room = _room(text, function)
    if room is None:
        return []
    line, indent = room
    lead = indent + b'assert globals().setdefault("{word}_{number}", []) or '
    last = b'globals()["{word}_{number}"].append({number})\n'
    return [Edit("again", line, line, lead + last, sure=True),
            Edit("ready", line, line, lead + b"not " + last, sure=True, neutral=True)]  # fmt: skip


def _final_edits(text: Text, function: ast.AST, nodes: list[ast.AST]) -> list[Edit]:
    """One more assertion at the end, about something that the test looks at itself."""
    room, last = _room(text, function), function.body[-1]
    if room is None or isinstance(last, ast.Return):
        return []
    indent = room[1]
    end = text.lines[last.end_lineno] if last.end_lineno < len(text.lines) else len(text.source)
    lead = b"" if text.source[:end].endswith((b"\n", b"\r")) else b"\n"

    def final(kind: str, condition: bytes, **flags: bool) -> Edit:
        return Edit(kind, end, end, lead + indent + b"assert " + condition + b"\n", **flags)

    found = []
    for what in [*_looked_at(text, nodes), *(name.encode() for name in _used_names(nodes))]:
        found.append(final("equals", what + b" == {number}"))
        found.append(final("differs", what + b" != {number}", neutral=True))
    return found


def _looked_at(text: Text, nodes: list[ast.AST]) -> list[bytes]:
    """Expressions on the left of the test's own comparisons that can be looked at again."""
    found: dict[bytes, None] = {}
    for node in nodes:
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            left = node.test.left
            if _is_still(left) and b"\n" not in text.of(left):
                found[text.of(left)] = None
    return list(found)


def _is_still(node: ast.AST) -> bool:
    """Does evaluating this again change nothing?"""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            if not (isinstance(inner.func, ast.Name) and inner.func.id in _PURE_CALLS):
                return False
        elif isinstance(inner, (ast.Await, ast.NamedExpr, ast.Lambda, ast.GeneratorExp, ast.ListComp)):
            return False
    return not isinstance(node, ast.Constant)


def _used_names(nodes: list[ast.AST]) -> list[str]:
    """Names that the test reads, other than modules that every test uses."""
    builtin = set(dir(__builtins__)) | set(__builtins__ if isinstance(__builtins__, dict) else ())
    names: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names[node.id] = None
    return [name for name in names if name not in builtin and name not in _COMMON and name[0] != "_"]
