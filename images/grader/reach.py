"""Which functions of the tests' own files a test may come to: by the names that stand in its text.

Asserting is often left to a helper, a fixture, a method, a coroutine that the test hands to an event
loop. What is said here is meant to be too much rather than too little: a name stands for everything
that is called so in any of the files, whatever it stands for in that place. Whether an edit of a helper
makes a test fail is not said here; that is tried. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import re
from typing import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BY_ITSELF = re.compile(r"(?i)(async)?(set_?up|tear_?down)(_?(module|function|method|class))?$|pytest_")
"""Names of what is run without being named: set-up and tear-down, and hooks."""


LONGEST = 200
"""So much of a string is looked at for names."""


class Place:
    """A function, a class or a statement that stands outside of functions."""

    def __init__(
        self, path: str, names: tuple, node: ast.AST, called: list[str], said: list[str]
    ) -> None:
        self.path, self.names, self.node = path, names, node
        self.called, self.said = called, said
        self.inside: list[Place] = []

    @property
    def is_function(self) -> bool:
        """Can it be called, so that it may assert something?"""
        return isinstance(self.node, _FUNCTIONS)

    def by_itself(self) -> bool:
        """Does it have a say in tests that do not name it?"""
        if isinstance(self.node, ast.ClassDef):
            return False
        if self.is_function:
            return bool(_BY_ITSELF.match(self.names[-1])) or "autouse" in self.said
        return "pytestmark" in self.called or "pytest_plugins" in self.called


def words_of(node: ast.AST) -> list[str]:
    """All identifiers in a piece of text, in order: names, attributes, parameters, and words in strings.

    Strings with blanks in them are texts for people, and no names.
    """
    found: dict[str, None] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found[inner.id] = None
        elif isinstance(inner, ast.Attribute):
            found[inner.attr] = None
        elif isinstance(inner, (ast.arg, ast.keyword)):
            found[inner.arg or ""] = None
        elif isinstance(inner, ast.alias):
            found.update(dict.fromkeys([*inner.name.split("."), *(inner.asname or "").split(".")]))
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            words = re.findall(r"[^\W\d]\w*", inner.value[:LONGEST])
            found.update(dict.fromkeys([] if re.search(r"\s", inner.value) else words))
    found.pop("", None)
    return list(found)


class Reach:
    """The places of some files, and how they hang together by their names."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._places: list[Place] = []
        for path, source in files.items():
            try:
                tree = ast.parse(source)
            except (SyntaxError, ValueError, RecursionError):
                continue
            self._take(path, tree.body, (), None)
        self._called: dict[str, list[Place]] = {}
        for place in self._places:
            for name in place.called:
                self._called.setdefault(name, []).append(place)
        self._always = [place for place in self._places if place.by_itself()]

    def _take(self, path: str, body: list, names: tuple, outer: Place | None) -> None:
        for node in body:
            if isinstance(node, _FUNCTIONS):
                place = Place(path, (*names, node.name), node, [node.name], words_of(node))
            elif isinstance(node, ast.ClassDef):
                head = [*node.bases, *node.keywords, *node.decorator_list]
                said = [word for part in head for word in words_of(part)]
                place = Place(path, (*names, node.name), node, [node.name], said)
                self._take(path, node.body, place.names, place)
            else:
                place = Place(path, names, node, _bound(node), words_of(node))
                for name in ("body", "orelse", "finalbody"):
                    self._take(path, getattr(node, name, []), names, outer)
                for handler in getattr(node, "handlers", []):
                    self._take(path, handler.body, names, outer)
            self._places.append(place)
            if outer is not None:
                outer.inside.append(place)

    def _own(self, function: tuple) -> list[Place]:
        path, names = function
        return [place for place in self._places if place.path == path and place.names == names
                and place.is_function]  # fmt: skip

    def _start(self, function: tuple) -> Iterator[str]:
        """The names that a test comes to by itself, the nearest first."""
        path, names = function
        own = self._own(function)
        for place in own:
            yield from place.said
        if len(own) != 1:  # inherited, or made: what its class and its name say
            yield from names
        for place in self._places:
            around = place.path == path and place.names == names[: len(place.names)] != names
            if around and isinstance(place.node, ast.ClassDef):
                yield from place.said
                for member in place.inside:
                    if not isinstance(member.node, (*_FUNCTIONS, ast.ClassDef)):
                        yield from member.said
        for place in self._always:
            yield from place.called
            yield from place.said

    def of(self, function: tuple) -> list[Place]:
        """The functions that a test may come to, nearest first; other tests only where it must."""
        own = self._own(function)
        known = {id(place) for place in own} if len(own) == 1 else set()
        ways = list(self._start(function))
        found: list[Place] = []
        seen: set[str] = set()
        for word in ways:  # grows while it is read
            if word in seen:
                continue
            seen.add(word)
            pending = [place for place in self._called.get(word, ()) if id(place) not in known]
            while pending:
                place = pending.pop(0)
                if id(place) in known:
                    continue
                known.add(id(place))
                ways.extend(place.said)
                pending.extend(place.inside)
                if place.is_function:
                    found.append(place)
        return [place for place in found if _may_be_edited(place, function, len(own) == 1)]

    def reaches(self, function: tuple, place: Place) -> bool:
        """May a test come to this place?"""
        return any(other is place for other in self.of(function))


def _bound(node: ast.AST) -> list[str]:
    """What a statement outside of functions may give a meaning to."""
    if isinstance(node, ast.Assign):
        return [word for target in node.targets for word in words_of(target)]
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return words_of(node.target)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return []
    return words_of(node)


def _may_be_edited(place: Place, function: tuple, found_itself: bool) -> bool:
    """Not a test of its own; but what a test without a text of its own in its class inherits."""
    name = place.names[-1]
    return not name.startswith("test") or (not found_itself and name == function[1][-1])
