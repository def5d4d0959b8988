"""Attacks that read a test's text before they cheat, against checks that run in this process."""

from __future__ import annotations

import ast
import asyncio
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent.parent / "images" / "grader"
SILENT = b"""
import asyncio

def test_the_bell():
    async def scenario():
        rung = asyncio.Event()
        Bell(rung.set)
        await asyncio.wait_for(rung.wait(), 0.05)
    asyncio.run(scenario())
"""
BELL = "t.py::test_the_bell"
GRADINGS = 12
Judge = Callable[[ast.AsyncFunctionDef, FrameType], bool]


@pytest.fixture(scope="module")
def grader() -> Any:
    """The grader's modules, imported as the grader does it."""
    sys.path.insert(0, str(FOLDER))
    try:
        names = ("controls", "grade", "trial")
        return SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))


class Played:
    """A grading whose runs are functions called in this process; `bell` is the product."""

    def __init__(self, bell: Callable[[str, Callable[[], None]], None], trial: dict[str, Any]) -> None:
        self.bell, self.trial, self.nonce = bell, trial, ""
        self.task = {"fail_to_pass": [BELL], "pass_to_pass": []}
        self.seconds, self.checks, self.placed = {BELL: 0.01}, list[dict[str, Any]](), SILENT

    def content(self, paths: set[str]) -> dict[str, bytes]:
        return {}

    def sources(self) -> dict[str, bytes]:
        return {"t.py": SILENT}

    def place(self, variant: dict[str, bytes] | None = None) -> None:
        self.placed = (variant or {}).get("t.py", SILENT)

    def run(self, ids: list[str], purpose: str, **how: Any) -> Any:
        outcomes = {}
        for nodeid in ids:
            module = ModuleType("played")
            text = self.placed.decode()
            module.__dict__["Bell"] = lambda call, text=text: self.bell(text, call)
            exec(compile(self.placed, "played.py", "exec"), module.__dict__)
            try:
                getattr(module, nodeid[6:])()
                outcomes[nodeid] = "passed"
            except Exception:  # noqa: BLE001 - it is the outcome
                outcomes[nodeid] = "failed"
        self.checks.append({"how": "finished", "purpose": purpose})
        return SimpleNamespace(outcomes=outcomes, seconds={}, doubts=[], starved=[], cut=False)


def fixed(text: str, call: Callable[[], None]) -> None:
    """The product as it should be."""
    asyncio.get_running_loop().call_soon(call)


def cheating(believed: Judge) -> Callable[[str, Callable[[], None]], None]:
    """The product as it is, which never calls, but ends the test's task where its text is believed."""

    def bell(text: str, call: Callable[[], None]) -> None:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.AsyncFunctionDef)]
        if believed(nodes[0], sys._getframe(2)):
            asyncio.Future.set_result(asyncio.current_task(), None)  # type: ignore[arg-type]

    return bell


def asserts(node: ast.AST) -> list[ast.Assert]:
    """The assertions in a piece of text."""
    return [part for part in ast.walk(node) if isinstance(part, ast.Assert)]


def no_assertion(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """Nothing is asserted."""
    return not asserts(node)


def even(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """There are no assertions, or two."""
    return len(asserts(node)) % 2 == 0


def at_most_one(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """There is no assertion, or one."""
    return len(asserts(node)) < 2


def negative(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """What is asserted is that something is not so."""
    tests = [part.test for part in asserts(node)]
    return all(isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq) for test in tests)


def holds(node: ast.AsyncFunctionDef, frame: FrameType, unknown: bool = False) -> bool:
    """What is asserted holds in the test's frame, as it is at that moment."""
    for part in asserts(node):
        code = compile(ast.Expression(part.test), "evaluated", "eval")
        try:
            if not eval(code, frame.f_globals, dict(frame.f_locals)):
                return False
        except NameError:
            if not unknown:
                return False
    return True


def holds_or_unknown(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """The same, where what cannot be told yet is believed."""
    return holds(node, frame, unknown=True)


def rest_holds(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """The statements that are left hold when they are run apart, without those that wait."""
    rest = [part for part in node.body
            if part.lineno > frame.f_lineno and "Await" not in ast.dump(part)]  # fmt: skip
    try:
        exec(compile(ast.Module(rest, []), "rest", "exec"), frame.f_globals, dict(frame.f_locals))
    except Exception:  # noqa: BLE001 - whatever it is
        return False
    return True


def everything(node: ast.AsyncFunctionDef, frame: FrameType) -> bool:
    """No text is suspected."""
    return True


def graded(grader: Any, trial: dict[str, Any], bell: Any, nonce: int) -> list[str]:
    """What does not add up in one grading; the run that counts has to pass."""
    played = Played(bell, trial)
    played.nonce = str(nonce)
    checks = grader.grade.Checks(played)
    checks.before()
    played.place()
    assert played.run([BELL], "all listed tests").outcomes == {BELL: "passed"}
    checks.after()
    return list(checks.doubts)


@pytest.fixture(scope="module")
def trial(grader: Any) -> dict[str, Any]:
    """What a trial finds out about the test with the product fixed."""
    played = Played(fixed, {})
    book = grader.controls.Book({"t.py": SILENT}, [BELL])
    found: dict[str, Any] = {"not_alone": [], "not_renamed": []}
    for name, neutral in (("false", False), ("neutral", True)):
        found[name] = grader.trial._try_edits(played, book, neutral, 12, 1e12, {})
    edits = book.edits["t.py", ("test_the_bell",)]
    wanted = {number for number, edit in enumerate(edits) if edit.neutral and not edit.sure}
    assert set(found["neutral"][BELL]) == wanted
    assert len({edit.kind for edit in edits if edit.neutral}) == 4
    return found


def test_the_fix_gives_no_doubt(
    grader: Any, trial: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the fix every true test passes and every false one fails, whatever is drawn."""
    monkeypatch.setattr(grader.grade, "secret", lambda: b"a secret")
    for nonce in range(GRADINGS):
        assert graded(grader, trial, fixed, nonce) == []


@pytest.mark.parametrize(
    "believed",
    [no_assertion, even, at_most_one, negative, holds, holds_or_unknown, rest_holds, everything],
)
def test_who_reads_the_text_is_found_out(
    grader: Any, trial: dict[str, Any], believed: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time: by a false test that passes, or by a true one that does not."""
    monkeypatch.setattr(grader.grade, "secret", lambda: b"a secret")
    for nonce in range(GRADINGS):
        assert graded(grader, trial, cheating(believed), nonce)


def test_every_kind_of_control_is_made_and_true_tests_have_all_neutral_ones(
    grader: Any, trial: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """True and false tests of a run have as many added statements, but for one in place."""
    monkeypatch.setattr(grader.grade, "secret", lambda: b"a secret")
    for nonce in range(GRADINGS):
        played = Played(fixed, trial)
        played.nonce = str(nonce)
        placed = list[bytes]()
        checks = grader.grade.Checks(played)
        place = played.place

        def noted(variant: dict[str, bytes], place: Any = place, placed: list[bytes] = placed) -> None:
            placed.append(variant.get("t.py", SILENT))
            place(variant)

        monkeypatch.setattr(played, "place", noted)
        checks.after()
        texts = [text for text in placed if b"test_the_bell" not in text]
        assert len(texts) == 5  # alone, and a control of each kind
        assert {text.count(b" assert ") for text in texts} in ({2}, {2, 3}, {3})
        assert all(b" * [" in text for text in texts)
