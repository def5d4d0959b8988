import json
import shutil
from pathlib import Path

import pytest

from race.cli import run
from race.core.records import Mined
from race.core.validated import Validated
from race.errors import Malformed, Missing
from race.progress import Progress
from race.stages.validate import STAGE, inputs
from race.store import Store
from race.work.stage import Desk

SAMPLE = "sample__brook-{}"


@pytest.fixture(scope="module")
def release(built_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the built sample."""
    folder = tmp_path_factory.mktemp("validate") / "sample"
    shutil.copytree(built_sample, folder)
    return folder


def _record(release: Path, number: int) -> Validated:
    found = Store(release).task(SAMPLE.format(number)).read(Validated)
    assert found is not None
    return found


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.parametrize(
    ("number", "tests"), [(3, 2), (7, 3), (12, 5), (15, 1), (17, 3), (23, 5), (24, 1), (26, 2)]
)
def test_every_real_fix_of_the_sample_is_accepted_with_its_tests(release, number, tests):
    """Each good change of the sample has exactly the tests that show its bug, within the bounds."""
    record = _record(release, number)
    assert record.accepted, record.findings
    assert len(record.fail_to_pass) == tests
    assert record.reliability is not None
    assert record.reliability.empty_bound <= 0.05
    assert record.reliability.gold_bound <= 0.05
    assert set(record.failures) == set(record.fail_to_pass)
    assert record.suite is not None
    assert record.suite.width == "whole"


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.parametrize(
    ("number", "rule", "place"),
    [
        (18, "no-fail-to-pass", ""),
        (20, "regression", "tests/test_limiter.py::test_the_newest_waiter_is_next"),
        (27, "only-unreliable", ""),
    ],
)
def test_what_must_be_turned_down_is_turned_down_for_its_own_reason(release, number, rule, place):
    """A test that shows nothing, a fix that breaks an old test, a race that only mostly shows."""
    record = _record(release, number)
    assert not record.accepted
    found = [finding for finding in record.findings if finding.severity == "error"]
    assert [finding.rule for finding in found] == [rule]
    assert not place or found[0].place == place


@pytest.mark.engine
@pytest.mark.network
def test_explain_shows_the_matrix_and_the_bounds_on_one_screen(release, capsys):
    """The screen has every list, the outcomes of all runs and both bounds, within sixty lines."""
    assert run(["explain", str(release), SAMPLE.format(7)]) == 0
    out = capsys.readouterr().out
    assert "FFF|..." in out
    assert "empty passes at most 4.9%" in out or "empty passes at most 5.0%" in out
    assert "(sample)" in out
    assert len(out.splitlines()) < 60


@pytest.mark.engine
@pytest.mark.network
def test_explain_as_json_is_one_document_with_the_same_facts(release, capsys):
    """A program reads the record, the ledger's outcomes and the excerpts."""
    assert run(["explain", str(release), SAMPLE.format(27), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["accepted"] is False
    assert facts["findings"][0]["rule"] == "only-unreliable"
    assert facts["dropped"][0]["reason"] == "unreliable"
    assert facts["cells"]["new-without"][0]["ended"] == "finished"


@pytest.mark.engine
@pytest.mark.network
def test_a_printed_repeat_runs_again(release, capsys):
    """The wobbling test passes in some of many replays without the fix, and their count is right."""
    words = ["--replay", "without/plain/0", "--times", "30", "--json"]
    assert run(["explain", str(release), SAMPLE.format(27), *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    passes = [set(one.values()) == {"passed"} for one in answer["runs"]]
    assert len(passes) == 30
    assert answer["bad"] == sum(passes)
    assert 0 < sum(passes) < 30


@pytest.mark.engine
@pytest.mark.network
def test_a_rebuild_without_the_clone_writes_the_same_files(release):
    """From the release folder alone, validated anew, every byte of the task's folder is the same."""
    task = Store(release).task(SAMPLE.format(24))
    before = {path.name: path.read_bytes() for path in task.path.iterdir()}
    (release / "local" / "clones.json").unlink(missing_ok=True)
    assert run(["validate", str(release), task.id, "--force"]) == 0
    assert {path.name: path.read_bytes() for path in task.path.iterdir()} == before


def test_explain_says_what_to_do_before_validation(tmp_path, capsys):
    """A task that is not validated yet, an unknown id and a bad key get one clear line each."""
    store = _small(tmp_path)
    assert run(["explain", str(store.folder), "a__b-1"]) == 3
    assert "race validate" in capsys.readouterr().err
    assert run(["explain", str(store.folder), "a__b-2"]) == 2
    assert "did you mean a__b-1?" in capsys.readouterr().err
    store.task("a__b-1").write(Validated(instance_id="a__b-1", accepted=False))
    assert run(["explain", str(store.folder), "a__b-1", "--replay", "with/quake/1"]) == 2
    assert "no perturbation 'quake'" in capsys.readouterr().err
    assert run(["explain", str(store.folder), "a__b-1", "--replay", "with/plain/1"]) == 3


def _small(folder: Path) -> Store:
    (folder / "release.toml").write_text(
        '[release]\nname = "small"\ncanary = "00000000-0000-0000-0000-000000000000"\n'
    )
    store = Store(folder)
    task = store.task("a__b-1")
    task.write(
        Mined(
            instance_id="a__b-1", accepted=True, repo="a/b", pr=1, title="t", licence="MIT",
            merged_at="2025-01-01T00:00:00Z", authored_at="2025-01-01T00:00:00Z",
            base_commit="0" * 40, merge_commit="1" * 40, merge_style="squash",
            fix_patch=task.write_file("fix.patch", b""), test_patch=task.write_file("test.patch", b""),
        )
    )  # fmt: skip
    return store


def test_a_task_without_clone_or_archive_says_what_to_do(tmp_path, bench):
    """Neither clone nor recorded archive: the user is told how to give one, nothing is recorded."""
    store = _small(tmp_path)
    desk = Desk(store.task("a__b-1"), store, bench, Progress("validate", 1, quiet=True))
    with pytest.raises(Missing, match="needs a clone of a/b"):
        STAGE.work(desk)


def test_validation_is_due_when_the_project_s_section_changes(tmp_path):
    """An override of this project makes it due, one of another project does not."""
    store = _small(tmp_path)
    before = inputs(store.task("a__b-1"), store)
    toml = (tmp_path / "release.toml").read_text()
    (tmp_path / "release.toml").write_text(toml + '[projects."c/d"]\npython = "3.13"\n')
    other = Store(tmp_path)
    assert inputs(other.task("a__b-1"), other) == before
    (tmp_path / "release.toml").write_text(toml + '[projects."a/b"]\npython = "3.13"\n')
    own = Store(tmp_path)
    assert inputs(own.task("a__b-1"), own) != before


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("repeats = 58", "a limit of 0.05 needs at least 59 repeats"),
        ("limit = 0.01", "a limit of 0.01 needs at least 299 repeats"),
        ("limit = 0", "limit 0 is no rate between 0 and 1"),
    ],
)
def test_a_limit_that_no_task_could_meet_is_refused(tmp_path, line, what):
    """release.toml that would drop every task for want of repeats says so, with the place."""
    _small(tmp_path)
    toml = (tmp_path / "release.toml").read_text()
    (tmp_path / "release.toml").write_text(f"{toml}[validate.reliability]\n{line}\n")
    with pytest.raises(Malformed, match=rf"release.toml: validate.reliability: .*{what}"):
        Store(tmp_path)
