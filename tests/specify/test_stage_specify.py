"""The stage: records, edits by hand, killed runs, rejections, models behind the port."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from race.cli import run
from race.core.records import Mined, sha256
from race.core.specified import Specified
from race.core.validated import Validated
from race.errors import Accident, RateLimited
from race.ports import Model, ModelReply
from race.progress import Progress
from race.settings import Workspace
from race.stages import specify
from race.stages._loop import run_stage
from race.store import Store, TaskFolder
from race.work.stage import stage_named
from race.work.tally import Tally
from race.workbench import Workbench

BATTERY = Path(__file__).parent / "battery"
GOOD = (BATTERY / "good" / "harbour-plain.md").read_text()
BAD = (BATTERY / "bad" / "fix-identifier--private.md").read_text()


@dataclass
class Scripted:
    """A model that answers from a list; the last answer is repeated."""

    name: str
    answers: Sequence[str | ModelReply | Exception]
    asked: list[list[Mapping[str, str]]] = field(default_factory=list)

    def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int = 4096) -> ModelReply:
        """The next answer."""
        self.asked.append(list(messages))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ModelReply) else ModelReply(answer, 100, 20, 30, 0.25)


class Bench(Workbench):
    """A workbench whose models are scripted."""

    def __init__(self, *models: Scripted) -> None:
        super().__init__(Workspace())
        self.models = {model.name: model for model in models}

    def model(self, name: str) -> Model:
        """The scripted model of that name."""
        return self.models[name]


def specified(task: TaskFolder, *models: Scripted, force: bool = False) -> Tally:
    """Run the stage over a task whose validation stands."""
    store = Store(task.path.parent)
    progress = Progress("specify", 1, quiet=True)
    return run_stage(specify.STAGE, store, Bench(*models), [task.id], force=force, progress=progress)


def record(task: TaskFolder) -> Specified:
    """The task's record, which must be there."""
    found = task.read(Specified)
    assert found is not None
    return found


def test_by_rules(task_of: Callable[..., TaskFolder]) -> None:
    """Without a model the rules write an accepted statement, the same on every run."""
    task = task_of("harbour")
    assert specified(task).done == [task.id]
    first = (task.path / "specify.json").read_bytes()
    found = record(task)
    assert (found.writer, found.edited, found.rounds, found.findings) == ("rules", False, 1, ())
    assert {item.kind for item in found.interface} == {"exception", "message", "parameter"}
    assert found.statement is not None
    text = task.read_file(found.statement).decode()
    assert "`harbour.PoolClosed`" in text
    assert "test_" not in text
    assert specified(task).skipped == [task.id]
    specified(task, force=True)
    assert (task.path / "specify.json").read_bytes() == first


def test_an_edit_is_audited_and_kept(task_of: Callable[..., TaskFolder]) -> None:
    """A statement edited by hand is due, audited, marked, and stays byte for byte."""
    task = task_of("harbour")
    specified(task)
    path = task.path / "statement.md"
    path.write_text(GOOD)
    assert specified(task).done == [task.id]
    assert (record(task).writer, record(task).edited) == ("hand", True)
    assert path.read_text() == GOOD
    assert specified(task).skipped == [task.id]
    specified(task, force=True)
    assert path.read_text() == GOOD
    path.write_text(BAD)
    assert specified(task).rejected == [task.id]
    assert [finding.rule for finding in record(task).findings] == ["fix-identifier"]
    assert record(task).findings[0].place.startswith("statement.md line ")
    assert path.read_text() == BAD


def test_a_deleted_statement_is_written_again(task_of: Callable[..., TaskFolder]) -> None:
    """Deleting an edited statement brings the written one back."""
    task = task_of("harbour")
    specified(task)
    first = (task.path / "specify.json").read_bytes()
    path = task.path / "statement.md"
    path.write_text(GOOD)
    specified(task)
    path.unlink()
    assert specified(task).done == [task.id]
    assert (task.path / "specify.json").read_bytes() == first


def test_killed_before_the_record(task_of: Callable[..., TaskFolder]) -> None:
    """A run killed between statement and record leaves nothing that looks edited."""
    task = task_of("harbour")
    specified(task)
    whole = (task.path / "specify.json").read_bytes()
    task.drop("specify")
    assert specified(task).done == [task.id]
    assert (task.path / "specify.json").read_bytes() == whole


def test_a_statement_that_was_there_first_is_a_maintainers(task_of: Callable[..., TaskFolder]) -> None:
    """A statement.md that nobody here wrote is audited, not overwritten."""
    task = task_of("harbour")
    (task.path / "statement.md").write_text(GOOD)
    specified(task)
    assert record(task).edited
    assert (task.path / "statement.md").read_text() == GOOD


def test_by_a_model(task_of: Callable[..., TaskFolder]) -> None:
    """A model's text is audited; its use, prompt and cost are recorded; no fix text is in the prompt."""
    task = task_of("harbour", '[specify]\nmodel = "some/model"\n')
    model = Scripted("some/model", [GOOD])
    assert specified(task, model).done == [task.id]
    found = record(task)
    assert (found.writer, found.rounds) == ("some/model", 1)
    call = found.calls[0]
    assert (call.role, call.input_tokens, call.output_tokens, call.cost_usd) == ("writer", 100, 30, 0.25)
    assert found.transcript is not None
    kept = json.loads(task.read_file(found.transcript))
    assert kept["canary"] == Store(task.path.parent).settings.release.canary
    assert kept["calls"][0]["messages"] == model.asked[0]
    prompt = json.dumps(model.asked)
    for secret in ("_next_live_taker", "_handover_guard", "asyncio.shield", "candidate", "1482"):
        assert secret not in prompt
    assert "parameter `timeout` of `harbour.Pool.acquire(...)`" in prompt
    assert len(found.coverage) == 3


def test_a_model_is_sent_back_with_reasons(task_of: Callable[..., TaskFolder]) -> None:
    """A bad text goes back with the findings; the next round's good text is taken."""
    task = task_of("harbour", '[specify]\nmodel = "m"\n')
    model = Scripted("m", [BAD, GOOD])
    assert specified(task, model).done == [task.id]
    assert record(task).rounds == 2
    sent_back = model.asked[1][-1]["content"]
    assert "fix-identifier" in sent_back
    assert "_next_live_taker" in sent_back
    assert model.asked[1][-2] == {"role": "assistant", "content": BAD}


def test_after_the_last_round_it_is_rejected(task_of: Callable[..., TaskFolder]) -> None:
    """A model that never gets it right leads to a verdict with the reasons of the last round."""
    task = task_of("harbour", '[specify]\nmodel = "m"\nrounds = 2\n')
    model = Scripted("m", [BAD])
    assert specified(task, model).rejected == [task.id]
    found = record(task)
    assert (found.rounds, len(found.calls)) == (2, 2)
    assert {finding.rule for finding in found.findings} == {"fix-identifier"}
    assert (task.path / "statement.md").read_text() == BAD


NONSENSE = [
    "",
    "I'm sorry, I cannot do that.",
    "```json\n{}\n```",
    ModelReply(GOOD, 1, None, 1, None, True),
]


def test_nonsense_is_asked_again(task_of: Callable[..., TaskFolder]) -> None:
    """Empty, refusing and cut-off answers are tried again and counted; the next good one is used."""
    task = task_of("harbour", '[specify]\nmodel = "m"\n')
    model = Scripted("m", ["", NONSENSE[3], f"Sure:\n```markdown\n{GOOD}```"])
    tally = specified(task, model)
    assert tally.done == [task.id] or tally.rejected == [task.id]
    assert [bool(call.problem) for call in record(task).calls][:2] == [True, True]


@pytest.mark.parametrize("answer", NONSENSE, ids=["empty", "refusing", "no-report", "cut-off"])
def test_nothing_but_nonsense_is_an_accident(
    answer: str | ModelReply, task_of: Callable[..., TaskFolder]
) -> None:
    """It says nothing about the task: no record, pending, one line that names the model."""
    task = task_of("harbour", '[specify]\nmodel = "m"\n')
    tally = specified(task, Scripted("m", [answer]))
    assert tally.pending == [task.id]
    assert "model m answered nonsense 3 times" in tally.accidents[task.id]
    assert task.read(Specified) is None
    assert not (task.path / "statement.md").exists()


def test_an_unreachable_model_is_an_accident(task_of: Callable[..., TaskFolder]) -> None:
    """A rate limit to the end leaves the task pending."""
    task = task_of("harbour", '[specify]\nmodel = "m"\n')
    tally = specified(task, Scripted("m", [RateLimited("later")]))
    assert tally.pending == [task.id]
    assert task.read(Specified) is None


def opinion(*rows: tuple[bool, str]) -> str:
    """A second opinion as the auditor model gives it."""
    listed = [
        {"test": at, "covered": covered, "sentence": text, "missing": text}
        for at, (covered, text) in enumerate(rows, 1)
    ]
    return f"Here it is:\n{json.dumps(listed)}"


YES = "A task that waits while the pool is closed must get a PoolClosed error promptly."


def test_a_second_opinion(task_of: Callable[..., TaskFolder]) -> None:
    """An auditor model sees statement, tests and interface, and its sentences become the coverage."""
    task = task_of("harbour", '[specify]\nauditor_model = "judge"\nmodel = "m"\n')
    judge = Scripted("judge", [opinion((True, YES), (True, YES), (True, YES))])
    assert specified(task, Scripted("m", [GOOD]), judge).done == [task.id]
    found = record(task)
    assert found.auditor == "rules+judge"
    assert {item.sentence for item in found.coverage} == {YES}
    asked = json.dumps(judge.asked)
    assert "test_closing_wakes_the_waiting_takers" in asked
    assert "asyncio.shield" not in asked


def test_a_second_opinion_against_it(task_of: Callable[..., TaskFolder]) -> None:
    """A test that the auditor model finds uncovered rejects the statement, with its reason."""
    task = task_of("harbour", '[specify]\nauditor_model = "judge"\n')
    judge = Scripted(
        "judge", [opinion((True, "With `Pool.acquire`"), (False, "the idle count"), (True, YES))]
    )
    tally = specified(task, judge)
    assert tally.pending == [task.id]
    text = "this must complete without that error"
    judge = Scripted("judge", [opinion((True, text), (False, "the idle count"), (True, text))])
    assert specified(task, judge).rejected == [task.id]
    assert "the idle count" in record(task).findings[0].message


@pytest.mark.parametrize(
    "answer",
    [
        "no JSON here",
        "[1, 2]",
        "[]",
        opinion(
            (True, "words that the statement never says"),
        )
        * 3,
    ],
    ids=["prose", "numbers", "no-rows", "made-up-sentence"],
)
def test_a_nonsense_opinion_is_no_opinion(answer: str, task_of: Callable[..., TaskFolder]) -> None:
    """It is asked again, and in the end an accident, never a verdict."""
    task = task_of("harbour", '[specify]\nauditor_model = "judge"\n')
    judge = Scripted("judge", [answer])
    assert specified(task, judge).pending == [task.id]
    assert len(judge.asked) == 3


def test_a_broken_archive_is_one_line(
    task_of: Callable[..., TaskFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """A source archive that is not what was recorded ends the command with file and reason."""
    task = task_of("harbour")
    (task.path / "source.tar.xz").write_bytes(b"not an archive")
    assert run(["specify", str(task.path.parent)], workbench=Bench()) == 2
    error = capsys.readouterr().err
    assert "source.tar.xz" in error
    assert "Traceback" not in error


def test_help_and_unknown_id(
    task_of: Callable[..., TaskFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    """The command has two examples, --json, and offers the nearest id."""
    assert run(["specify", "--help"]) == 0
    assert capsys.readouterr().out.count("race specify tasks/sample") >= 2
    task = task_of("harbour")
    assert run(["specify", str(task.path.parent), "owner__harbor-1482"], workbench=Bench()) == 2
    assert f"did you mean {task.id}?" in capsys.readouterr().err
    assert run(["specify", str(task.path.parent), "--json"], workbench=Bench()) == 0
    assert json.loads(capsys.readouterr().out)["done"] == [task.id]


def test_a_changed_record_makes_it_due(task_of: Callable[..., TaskFolder]) -> None:
    """Another kind in the mining record is another input; the statement is written again."""
    task = task_of("harbour")
    specified(task)
    mined, validated = task.read(Mined), task.read(Validated)
    assert mined is not None
    assert validated is not None
    task.write(mined.model_copy(update={"kind": "leak"}))
    assert specified(task).pending == [task.id]
    inputs = stage_named("validate").inputs(task, Store(task.path.parent))
    task.write(validated.model_copy(update={"inputs": inputs}))
    assert specified(task).done == [task.id]
    text = (task.path / "statement.md").read_bytes()
    assert b"Leak in `harbour.Pool`" in text
    assert record(task).statement is not None
    assert not record(task).edited
    assert sha256(text) == record(task).statement.sha256  # type: ignore[union-attr]


def test_an_accident_is_no_rejection() -> None:
    """The types that the loop tells apart."""
    assert issubclass(RateLimited, Accident)
