"""Negative controls: hidden tests with one assertion turned false, which must then fail.

A control is not an extra test. It is a hidden test itself, under its own name, in its own file, in a
run like any other, with one small edit: an assertion negated, an expected value or exception swapped,
or one more assertion, false of an object that the test uses. Whoever makes the edited test pass as
well has not fixed anything. Which edits are made is drawn anew for each grading from a secret of
the release. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import random
import re

SAFE, TRIED = "safe", "tried"
"""`safe` edits must fail whenever the test itself passes; others only once a trial has shown it."""
_WRONG_ERRORS = ("ZeroDivisionError", "UnicodeDecodeError", "LookupError", "BufferError", "EOFError")


class Edit:
    """One way to make a test false: replace a piece of its file."""

    def __init__(self, kind: str, trust: str, start: int, end: int, text: bytes) -> None:
        self.kind, self.trust = kind, trust
        self.start, self.end, self.text = start, end, text

    def apply(self, source: bytes, draw: random.Random) -> bytes:
        """The file with this edit made. Numbers that it needs are drawn, so that none gives it away."""
        text = self.text.replace(b"{number}", str(draw.randrange(2, 1000)).encode())
        return source[: self.start] + text + source[self.end :]


def drawing(secret: bytes, nonce: str, purpose: str) -> random.Random:
    """A source of choices that only the holder of the secret can repeat."""
    seed = hmac.new(secret, (nonce + ":" + purpose).encode(), hashlib.sha256).digest()
    return random.Random(int.from_bytes(seed, "big"))


def function_of(nodeid: str) -> tuple[str, tuple[str, ...]]:
    """File and names of classes and function of a node id, without parameters."""
    path, _, rest = nodeid.partition("::")
    return path, tuple(re.sub(r"\[.*$", "", rest, flags=re.DOTALL).split("::"))


def functions_of(source: bytes) -> dict[tuple[str, ...], ast.AST]:
    """Test functions of a file by names of classes and function; those that occur once."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[tuple[str, ...], list[ast.AST]] = {}

    def visit(body: list, names: tuple[str, ...]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault((*names, node.name), []).append(node)
            elif isinstance(node, ast.ClassDef):
                visit(node.body, (*names, node.name))
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                visit(node.body, names)
                visit(getattr(node, "orelse", []), names)

    visit(tree.body, ())
    return {names: nodes[0] for names, nodes in found.items() if len(nodes) == 1}


def edits_of(source: bytes, function: ast.AST) -> list[Edit]:
    """Every edit that can be made to a test function, in a fixed order."""
    text = Text(source)
    edits: list[Edit] = []
    top = {id(node) for node in function.body}
    early = any(isinstance(node, ast.Return) for node in _own_nodes(function))
    for node in _own_nodes(function):
        sure = SAFE if id(node) in top and not early else TRIED
        if isinstance(node, ast.Assert):
            edits.extend(_assert_edits(text, node, sure))
        elif isinstance(node, ast.Call) and _is_raises(node):
            swapped = _swap_error(text, node)
            if swapped is not None:
                edits.append(swapped)
    edits.extend(_final_edits(text, function, SAFE if not early else TRIED))
    return edits


def _own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function's body, without those of functions and classes inside it, in order."""
    found: list[ast.AST] = []
    pending = list(reversed(function.body))
    while pending:
        node = pending.pop()
        found.append(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


class Text:
    """A source file with the offsets of its lines."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node's text begins and ends."""
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> bytes:
        """A node's text."""
        start, end = self.span(node)
        return self.source[start:end]


_FLIPPED = {
    ast.Eq: b"!=", ast.NotEq: b"==", ast.Is: b"is not", ast.IsNot: b"is", ast.In: b"not in", ast.NotIn: b"in"
}  # fmt: skip


def _assert_edits(text: Text, node: ast.Assert, sure: str) -> list[Edit]:
    start, end = text.span(node.test)
    whole = text.source[start:end]
    edits = []
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        flipped = _FLIPPED.get(type(test.ops[0]))
        left, right = text.of(test.left), text.of(test.comparators[0])
        if flipped is not None and b"\n" not in whole and not whole.startswith(b"("):
            edits.append(Edit("negate", TRIED, start, end, left + b" " + flipped + b" " + right))
        if isinstance(test.ops[0], (ast.Eq, ast.Is)):
            edits.extend(_other_values(text, test.comparators[0]))
            edits.extend(_other_values(text, test.left))
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = text.of(test.operand)
        edits.append(Edit("negate", sure, start, end, b"bool(" + inner + b")"))
    if whole.count(b"(") == whole.count(b")"):
        edits.append(Edit("negate", sure, start, end, b"not (" + whole + b")"))
    return edits


def _other_values(text: Text, node: ast.AST) -> list[Edit]:
    """The same comparison with another expected value."""
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
    return [Edit("value", TRIED, *text.span(node), other.encode())]


def _is_raises(node: ast.Call) -> bool:
    name = node.func
    called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
    return called in ("raises", "assertRaises", "warns") and bool(node.args)


def _swap_error(text: Text, node: ast.Call) -> Edit | None:
    expected = text.of(node.args[0]).decode(errors="replace")
    for name in _WRONG_ERRORS:
        if name not in expected:
            return Edit("error", TRIED, *text.span(node.args[0]), name.encode())
    return None


def _final_edits(text: Text, function: ast.AST, sure: str) -> list[Edit]:
    """One more assertion at the end, false of a name that the test uses."""
    last = function.body[-1]
    start = text.lines[function.body[0].lineno - 1]
    first = function.body[0]
    indent = text.source[start : start + first.col_offset]
    if indent.strip() or first.lineno == function.lineno:
        return []
    end = text.lines[min(last.end_lineno, len(text.lines) - 1)]
    lead = b"" if text.source[:end].endswith((b"\n", b"\r")) else b"\n"
    names: dict[str, str] = {}
    for node in _own_nodes(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.setdefault(node.id, node.id)
    used = [name for name in names if not name.startswith("_") and name not in _PLAIN]
    edits = []
    for name in used:
        bound = sure if name in _top_names(function) else TRIED
        for kind, line, trust in (
            ("equals", "assert %s == {number}", TRIED),
            ("identity", "assert %s is NotImplemented", bound),
        ):
            text_line = lead + indent + (line % name).encode() + b"\n"
            edits.append(Edit(kind, trust, end, end, text_line))
    return edits


_PLAIN = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__) | {
    "pytest", "asyncio", "self", "mock", "time", "sys", "os", "threading", "Any",
}  # fmt: skip


def _top_names(function: ast.AST) -> set[str]:
    """Names that are surely bound at a function's end: its parameters and what its body assigns."""
    arguments = function.args
    names = {arg.arg for arg in (*arguments.args, *arguments.kwonlyargs)}
    for node in function.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        names.update(target.id for target in targets if isinstance(target, ast.Name))
    deleted = {
        target.id
        for node in _own_nodes(function)
        if isinstance(node, ast.Delete)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return names - deleted


def candidates(files: dict[str, bytes], ids: list[str]) -> dict[str, list[tuple[int, Edit]]]:
    """For each id whose function can be found: its edits, numbered in their fixed order."""
    functions = {path: functions_of(source) for path, source in files.items()}
    found: dict[str, list[tuple[int, Edit]]] = {}
    made: dict[tuple[str, tuple[str, ...]], list[tuple[int, Edit]]] = {}
    for nodeid in ids:
        path, names = function_of(nodeid)
        function = functions.get(path, {}).get(names)
        if function is None:
            continue
        if (path, names) not in made:
            made[path, names] = mixed(edits_of(files[path], function))
        found[nodeid] = made[path, names]
    return found


def mixed(edits: list[Edit]) -> list[tuple[int, Edit]]:
    """Edits with their numbers, kinds taking turns, so that the first few hold some of every kind."""
    by_kind: dict[str, list[tuple[int, Edit]]] = {}
    for number, edit in enumerate(edits):
        by_kind.setdefault(edit.kind, []).append((number, edit))
    turns: list[tuple[int, Edit]] = []
    for place in range(max((len(row) for row in by_kind.values()), default=0)):
        turns.extend(row[place] for row in by_kind.values() if place < len(row))
    return turns
