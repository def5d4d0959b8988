"""What changed code and new tests do, read from the syntax trees of the functions a diff touches.

Facts are counted per side (product, tests) and per place: `new` (in added lines), `old` (in removed
lines), `near` (in the functions around them). `signals.py` turns counts into named signals.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from race.core.mining.diffs import Hunk, Section
from race.core.mining.functions import Function, cut
from race.core.mining.nodes import changed_nodes, facts_of
from race.core.mining.vocabulary import families

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
MOST_PARSED = 50
"""Functions of one side that are parsed; a pull request with more is a rewrite of some kind."""


@dataclass
class Facts:
    """Counts of one side of a pull request."""

    new: Counter[str] = field(default_factory=Counter)
    old: Counter[str] = field(default_factory=Counter)
    near: Counter[str] = field(default_factory=Counter)
    new_functions: list[str] = field(default_factory=list)
    lines_new: int = 0
    lines_old: int = 0
    code_new: int = 0
    """Added lines inside functions that are neither blank nor comment."""
    async_functions: int = 0
    kept_lines: int = 0
    """Added lines in functions that were there before."""
    new_public: int = 0
    """New public functions and classes: what a feature brings."""
    new_parameters: int = 0
    remarks: list[str] = field(default_factory=list)
    """Added comments and texts (docstrings, messages), for their words."""
    inert: bool = True
    """Nothing was added but marks, imports, comments and options of marks."""
    fresh: int = 0
    """Added code lines that no removed line resembles."""
    quoted_tests: list[str] = field(default_factory=list)
    """Test functions added inside quoted text, as tests of test runners have them."""
    touched: set[str] = field(default_factory=set)
    """Names of the functions that hold changed lines."""
    said: set[str] = field(default_factory=set)
    """Identifiers on added lines of code."""


def read(sections: Iterable[Section], *, tests: bool = False) -> Facts:
    """The facts of one side's sections. Of tests only what they do now counts: no `old`, no `near`."""
    facts = Facts()
    parsed = 0
    hunks = [hunk for section in sections for hunk in section.hunks]
    olds = [cut(hunk.old) for hunk in hunks]
    known = {function.name for functions, _ in olds for function in functions}
    for hunk, (gone, loose_old) in zip(hunks, olds, strict=True):
        _remark(hunk, facts)
        before = {function.name: function for function in gone}
        for function in before.values():
            if not tests:
                parsed += 1
                _count(function, facts.old, parsed < MOST_PARSED)
            facts.lines_old += len(function.changed)
        functions, loose_new = cut(hunk.new)
        for function in functions:
            parsed += 1
            facts.touched.add(function.name)
            _count(function, facts.new, parsed < MOST_PARSED)
            if not tests:
                _look_around(function, facts.near)
            _measure(
                function,
                before.get(function.name),
                known,
                facts,
                parameters=not tests and parsed < MOST_PARSED,
            )
        for text in loose_new:
            _loose(text, facts.new)
            _module_level(text, facts)
        for text in loose_old:
            _loose(text, facts.old)
        facts.lines_old += len(loose_old)
    return facts


def _look_around(function: Function, near: Counter[str]) -> None:
    """What the unchanged lines of a changed function say, by their words alone."""
    changed = function.changed
    lines = [text for number, text in enumerate(function.source, 1) if number not in changed]
    _loose("\n".join(text.split("#", 1)[0] for text in lines), near)
    near["await"] += sum("await " in text for text in lines)


_TEXT = re.compile(r"#\s?(.*)$|[\"']{1,3}((?:[^\"'\\]|\\.){12,})")
_CHECK = re.compile(r"\bassert|\braises\(|\bwarns\(|\.fail\(")
_SKIP = re.compile(r"\b(skip|skipif|xfail|skipTest)\(")
_INERT = re.compile(
    r"^([\])},:]*|@.*|#.*|import .*|from .*|pass|[rbuf]*[\"'].*[\"'],?|(else|try|finally):)$"
)


def _remark(hunk: Hunk, facts: Facts) -> None:
    """Gather added remarks, and count added code that does not merely replace the like of it."""
    taken = Counter(_likeness(line.text) for line in hunk.old if line.changed)
    quoted = False
    for line in hunk.new:
        inside = quoted
        if line.text.count('"""') % 2 or line.text.count("'''") % 2:
            quoted = not quoted
        if not line.changed:
            continue
        if inside or quoted:
            facts.remarks.append(line.text.strip())
            if found := _QUOTED_TEST.match(line.text):
                facts.quoted_tests.append(found["name"])
            continue
        facts.remarks.extend(a or b for a, b in _TEXT.findall(line.text))
        likeness = _likeness(line.text)
        if not likeness or _INERT.match(line.text.strip()):
            continue
        facts.said.update(_IDENTIFIER.findall(line.text))
        if taken[likeness]:
            taken[likeness] -= 1
        else:
            facts.fresh += 1


_QUOTED_TEST = re.compile(r"^\s*(?:async\s+)?def\s+(?P<name>test\w*)\(")


def _likeness(text: str) -> str:
    """A line without its names' details: two lines of one likeness differ by a rename or an argument."""
    head, bracket, _ = text.strip().lower().partition("(")
    return _UNLIKE.sub("", head + bracket)[:24]


_UNLIKE = re.compile(r"[^a-z(=.]+")


def _measure(
    function: Function, before: Function | None, known: set[str], facts: Facts, *, parameters: bool
) -> None:
    facts.lines_new += len(function.changed)
    code = [
        text
        for number in function.changed
        if (text := function.source[number - 1].strip()) and not text.startswith(("#", "@"))
    ]
    facts.code_new += len(code)
    marks = "".join(function.source[number - 1] for number in function.changed)
    facts.inert = facts.inert and not code and "param" not in marks
    facts.async_functions += function.asynchronous
    if before is not None:
        facts.kept_lines += len(function.changed)
    if function.whole and before is None and function.name not in known:
        facts.new_functions.append(function.name)
        public = not function.name.startswith("_") or function.name in ("__aenter__", "__enter__")
        facts.new_public += public
    elif parameters and before and function.tree is not None and before.tree is not None:
        added = _parameters(function.tree) - _parameters(before.tree)
        facts.new_parameters += len(added)


def _parameters(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = tree.args
    return {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _module_level(text: str, facts: Facts) -> None:
    facts.lines_new += 1
    facts.inert = facts.inert and bool(_MARK.match(text.strip())) and "param" not in text
    if re.match(r"class\s+[A-Za-z]", text.strip()):
        facts.new_public += 1


_MARK = re.compile(
    r"^(#.*|@.*|import .*|from .*|[\])}]+,?|pytestmark\b.*|\w+ = pytest\.mark\..*|\w+=[^()]*,?|)$"
)


def _loose(text: str, into: Counter[str]) -> None:
    code = text.split("#", 1)[0]
    for identifier in _IDENTIFIER.findall(code):
        for family in families(identifier):
            into[f"says:{family}"] += 1


def _count(function: Function, changed: Counter[str], parse: bool) -> None:
    """Count what the changed lines of a function do; without a parse, what their words say."""
    if not parse or function.tree is None:
        for number in function.changed:
            text = function.source[number - 1]
            _loose(text, changed)
            changed["check"] += bool(_CHECK.search(text))
            changed["skip"] += bool(_SKIP.search(text))
        return
    for node in changed_nodes(function.tree, function.changed):
        for fact in facts_of(node):
            changed[fact] += 1
