"""Small edits of a test function: each makes it false, or (neutral) leaves it as true as it was.

Edits replace a piece of the file's text, so that everything else in the file stays byte for byte.
Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import random
import re

_WRONG_ERRORS = ("ZeroDivisionError", "UnicodeDecodeError", "LookupError", "BufferError", "EOFError")
_PURE_CALLS = frozenset(
    {"len", "list", "tuple", "set", "sorted", "str", "repr", "int", "bool", "sum", "max", "min", "dict"}
)
_WORDS = (b"limit", b"delay", b"size", b"seen", b"total", b"rounds", b"budget", b"most")
_FLIPPED = {
    ast.Eq: b"!=", ast.NotEq: b"==", ast.Is: b"is not", ast.IsNot: b"is", ast.In: b"not in",
    ast.NotIn: b"in",
}  # fmt: skip
_COMMON = frozenset(
    {"pytest", "asyncio", "self", "mock", "time", "sys", "os", "threading", "Any", "anyio", "trio"}
)


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
    """Every edit that can be made to a test function, in a fixed order."""
    text = Text(source)
    nodes = own_nodes(function)
    top = {id(node) for node in function.body}
    early = any(isinstance(node, ast.Return) for node in nodes)
    found: list[Edit] = []
    for node in nodes:
        if isinstance(node, ast.Assert):
            found.extend(_assert_edits(text, node, id(node) in top and not early))
        elif isinstance(node, ast.Call) and _is_raises(node):
            found.extend(_swapped_errors(text, node))
    found.extend(_final_edits(text, function, nodes))
    return found


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


def _assert_edits(text: Text, node: ast.Assert, sure: bool) -> list[Edit]:
    """The assertion negated, or with another expected value."""
    start, end = text.span(node.test)
    whole, test = text.source[start:end], node.test
    found = []
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        flipped = _FLIPPED.get(type(test.ops[0]))
        left, right = text.of(test.left), text.of(test.comparators[0])
        plain = whole.startswith(left) and whole.endswith(right) and b"\n" not in whole
        if flipped is not None and plain:
            found.append(Edit("negate", start, end, left + b" " + flipped + b" " + right))
        if isinstance(test.ops[0], (ast.Eq, ast.Is)):
            for side in (test.comparators[0], test.left):
                found.extend(_other_values(text, side))
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        found.append(Edit("negate", start, end, b"bool(" + text.of(test.operand) + b")", sure=sure))
    if whole.count(b"(") == whole.count(b")"):
        found.append(Edit("negate", start, end, b"not (" + whole + b")", sure=sure))
    return found


def _other_values(text: Text, node: ast.AST) -> list[Edit]:
    """The same comparison with another constant."""
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        return _other_values(text, node.elts[-1])
    if not isinstance(node, ast.Constant):
        return []
    value = node.value
    if isinstance(value, bool):
        other = repr(not value)
    elif isinstance(value, int):
        other = repr(value + 3)
    elif isinstance(value, float):
        other = repr(value + 7.5)
    elif isinstance(value, str) and "\n" not in value:
        other = repr(value[1:] + "o" if len(value) > 1 else value + "e")
    elif isinstance(value, bytes):
        other = repr(value + b"o")
    elif value is None:
        other = "False"
    else:
        return []
    return [Edit("value", *text.span(node), other.encode())]


def _is_raises(node: ast.Call) -> bool:
    name = node.func
    called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
    return called in ("raises", "assertRaises") and bool(node.args)


def _swapped_errors(text: Text, node: ast.Call) -> list[Edit]:
    expected = text.of(node.args[0]).decode(errors="replace")
    names = [name for name in _WRONG_ERRORS if name not in expected][:2]
    return [Edit("error", *text.span(node.args[0]), name.encode()) for name in names]


def _final_edits(text: Text, function: ast.AST, nodes: list[ast.AST]) -> list[Edit]:
    """One more assertion at the end, about something that the test looks at itself."""
    first, last = function.body[0], function.body[-1]
    line = text.lines[first.lineno - 1]
    indent = text.source[line : line + first.col_offset]
    if indent.strip() or first.lineno == function.lineno or isinstance(last, ast.Return):
        return []
    end = text.lines[last.end_lineno] if last.end_lineno < len(text.lines) else len(text.source)
    lead = b"" if text.source[:end].endswith((b"\n", b"\r")) else b"\n"

    def final(kind: str, condition: bytes, **flags: bool) -> Edit:
        return Edit(kind, end, end, lead + indent + b"assert " + condition + b"\n", **flags)

    assigned = lead + indent + b"{word}_{number} = {number}\n"
    found = [Edit("local", end, end, assigned, neutral=True, sure=True)]
    looked_at = _looked_at(text, nodes)
    for what, known in looked_at.items():
        found.append(final("equals", what + b" == {number}"))
        found.append(final("differs", what + b" != {number}", neutral=True))
        if known is not None and known.value is not None:
            found.append(final("none", what + b" is None"))
            found.append(final("some", what + b" is not None", neutral=True))
        if known is not None and known.value:
            found.append(final("not", b"not " + what))
    for node in function.body:
        if isinstance(node, ast.Assert) and _is_still(node.test) and b"\n" not in text.of(node.test):
            found.append(final("repeat", text.of(node.test), neutral=True))
    for name in _used_names(nodes):
        if name.encode() not in looked_at:
            found.append(final("equals", name.encode() + b" == {number}"))
            found.append(final("differs", name.encode() + b" != {number}", neutral=True))
    return found


def _looked_at(text: Text, nodes: list[ast.AST]) -> dict[bytes, ast.Constant | None]:
    """Expressions on the left of the test's own comparisons that can be looked at again.

    With the constant that the test says they equal, where it does: then a passing test has settled
    whether they are None or false.
    """
    found: dict[bytes, ast.Constant | None] = {}
    for node in nodes:
        if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
            continue
        left, right = node.test.left, node.test.comparators[0]
        if not _is_still(left) or b"\n" in text.of(left):
            continue
        settled = len(node.test.ops) == 1 and isinstance(node.test.ops[0], (ast.Eq, ast.Is))
        known = right if settled and isinstance(right, ast.Constant) else None
        found.setdefault(text.of(left), known)
    return found


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
