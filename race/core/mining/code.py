"""What changed code and new tests do, read from the syntax trees of the functions a diff touches.

Facts are counted per side (product, tests) and per place: `new` (in added lines), `old` (in removed
lines), `near` (in the functions around them). `signals.py` turns counts into named signals.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from race.core.mining.diffs import Section
from race.core.mining.functions import Function, loose_lines, touched_functions
from race.core.mining.vocabulary import families

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_CANCELLED = re.compile(r"Cancel|BaseException|KeyboardInterrupt|GeneratorExit|get_cancelled_exc_class")
_GUARDED = re.compile(r"lock|mutex|sem|cond|limiter|guard|atomic", re.IGNORECASE)


@dataclass
class Facts:
    """Counts of one side of a pull request."""

    new: Counter[str] = field(default_factory=Counter)
    old: Counter[str] = field(default_factory=Counter)
    near: Counter[str] = field(default_factory=Counter)
    new_functions: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    lines_new: int = 0
    lines_old: int = 0
    code_new: int = 0
    """Added lines inside functions that are neither blank nor comment."""
    async_functions: int = 0
    new_public: int = 0
    """New public functions and classes: what a feature brings."""
    new_parameters: int = 0
    marks_only: bool = True
    """Added lines are only decorators, imports, comments: nothing that runs differently."""


def read(sections: Iterable[Section]) -> Facts:
    """The facts of one side's sections."""
    facts = Facts()
    for section in sections:
        for hunk in section.hunks:
            before = {function.name: function for function in touched_functions(hunk.old)}
            for name, function in before.items():
                _count(function, facts.old, None)
                facts.lines_old += len(function.changed)
                facts.touched.append(name)
            for function in touched_functions(hunk.new):
                _count(function, facts.new, facts.near)
                _measure(function, before.get(function.name), facts)
            for text in loose_lines(hunk.new):
                _loose(text, facts.new)
                _module_level(text, facts)
            for text in loose_lines(hunk.old):
                _loose(text, facts.old)
                facts.lines_old += 1
    return facts


def _measure(function: Function, before: Function | None, facts: Facts) -> None:
    facts.lines_new += len(function.changed)
    facts.touched.append(function.name)
    code = [
        text
        for number in function.changed
        if (text := function.source[number - 1].strip()) and not text.startswith(("#", "@"))
    ]
    facts.code_new += len(code)
    facts.marks_only = facts.marks_only and not code
    if isinstance(function.tree, ast.AsyncFunctionDef):
        facts.async_functions += 1
    if function.whole and before is None:
        facts.new_functions.append(function.name)
        public = not function.name.startswith("_") or function.name in ("__aenter__", "__enter__")
        facts.new_public += public
    elif before is not None and function.tree is not None and before.tree is not None:
        added = _parameters(function.tree) - _parameters(before.tree)
        facts.new_parameters += len(added)


def _parameters(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = tree.args
    return {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _module_level(text: str, facts: Facts) -> None:
    facts.lines_new += 1
    stripped = text.strip()
    if re.match(r"class\s+[A-Za-z]", stripped):
        facts.new_public += 1
    if stripped and not stripped.startswith(("#", "@", "import ", "from ", '"""', ")", "]")):
        facts.marks_only = facts.marks_only and not re.match(r"[\w.]+\s*(=|\()", stripped)


def _loose(text: str, into: Counter[str]) -> None:
    code = text.split("#", 1)[0]
    for identifier in _IDENTIFIER.findall(code):
        for family in families(identifier):
            into[f"says:{family}"] += 1


def _count(function: Function, changed: Counter[str], near: Counter[str] | None) -> None:
    """Count what a function does, in changed lines and (for the new side) around them."""
    if function.tree is None:
        for number, text in enumerate(function.source, 1):
            into = changed if number in function.changed else near
            if into is not None:
                _loose(text, into)
        return
    offset = 1 - min(
        [function.tree.lineno, *(d.lineno for d in function.tree.decorator_list)], default=1
    )
    for node in ast.walk(function.tree):
        line = getattr(node, "lineno", None)
        if line is None:
            continue
        into = changed if line + offset in function.changed else near
        if into is not None:
            for fact in _facts(node):
                into[fact] += 1


def _facts(node: ast.AST) -> Sequence[str]:
    """What one node says and does."""
    if isinstance(node, ast.Name):
        return [f"says:{family}" for family in families(node.id)]
    if isinstance(node, ast.Attribute):
        return [f"says:{family}" for family in families(node.attr)]
    if isinstance(node, ast.arg):
        return [f"says:{family}" for family in families(node.arg)]
    if isinstance(node, ast.Call):
        name = called(node.func)
        return [f"call:{name}", *(["call"] if name else [])]
    if isinstance(node, ast.Await):
        return ["await"]
    if isinstance(node, ast.With | ast.AsyncWith):
        return _with(node)
    if isinstance(node, ast.Try):
        return ["try", *(["finally"] if node.finalbody else [])]
    if isinstance(node, ast.ExceptHandler):
        said = ast.unparse(node.type) if node.type is not None else "BaseException"
        return ["except", *(["except:cancel"] if _CANCELLED.search(said) else [])] + [
            f"except:{name}"
            for name in ("RuntimeError", "InvalidStateError", "KeyError")
            if name in said
        ]
    if isinstance(node, ast.If):
        return _condition(node.test)
    if isinstance(node, ast.While):
        return ["while", *_condition(node.test)]
    if isinstance(node, ast.AsyncFunctionDef):
        return ["async def"]
    if isinstance(node, ast.Raise):
        return ["raise"]
    if isinstance(node, ast.AsyncFor):
        return ["async for"]
    return ()


def _with(node: ast.With | ast.AsyncWith) -> list[str]:
    facts = ["async with"] if isinstance(node, ast.AsyncWith) else ["with"]
    said = " ".join(ast.unparse(item.context_expr) for item in node.items)
    if _GUARDED.search(said):
        facts.append("with:lock")
    if re.search(r"shield|fail_after|move_on|CancelScope|timeout|wait_for", said):
        facts.append("with:cancel")
    if re.search(r"TaskGroup|task_group|nursery|ThreadPool|Executor|Runner", said):
        facts.append("with:tasks")
    if "raises" in said and re.search(r"Cancel|Timeout|Closed|Broken|RuntimeError|Deadlock|Busy", said):
        facts.append("with:raises-async")
    return facts


def _condition(test: ast.expr) -> list[str]:
    said = {
        family
        for node in ast.walk(test)
        if isinstance(node, ast.Name | ast.Attribute)
        for family in families(node.id if isinstance(node, ast.Name) else node.attr)
    }
    facts = ["if"]
    if said & {"close", "cancel", "race", "wake", "lock", "loop", "thread"}:
        facts.append("if:state")
    if any(isinstance(node, ast.Is | ast.IsNot) for node in ast.walk(test)):
        facts.append("if:identity")
    return facts


def called(func: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""
