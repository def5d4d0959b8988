"""What becomes of every kind of row: our runs, a validator's rows, Parquet, and imperfect input."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from race.cli import run
from race.core.runs import read_task
from race.core.runs.tasks import changed_lines
from race.errors import UsageError


def row(instance_id="t1", agent="base", attempt=0, resolved=True, **more):
    return {
        "instance_id": instance_id,
        "agent": agent,
        "model": None,
        "attempt": attempt,
        "resolved": resolved,
        "input_tokens": 100,
        "cached_input_tokens": None,
        "output_tokens": 0,
        "cost_usd": None,
        "steps": 3,
        "seconds": 1.5,
        "ended": "submitted",
        "started_at": "2026-10-01T00:00:00Z",
    } | more


BASE = [row(attempt=k) for k in range(3)]
MINER = [row(agent="m", attempt=k, input_tokens=50) for k in range(3)]


@pytest.fixture
def score(tmp_path, capsys):
    """Scores rows against a task list through the command; exit code, JSON answer, standard error."""

    def call(rows, tasks=({"instance_id": "t1", "repeats": 3},), *, text=None, more=()):
        tasks_file, runs_file = tmp_path / "tasks.jsonl", tmp_path / "runs.jsonl"
        tasks_file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
        runs_file.write_text("".join(json.dumps(r) + "\n" for r in rows) if text is None else text)
        capsys.readouterr()
        code = run(
            ["score", "--tasks", str(tasks_file), "--runs", str(runs_file), "--baseline", "base",
             "--json", *more]
        )  # fmt: skip
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return call


def test_a_plain_competition(score):
    """Three of three against three of three at half the tokens: r = log2(100/50) = 1."""
    code, answer, err = score([*BASE, *MINER])
    assert code == 0
    task = answer["miners"]["m"]["tasks"]["t1"]
    assert task == {
        "x": 3, "y": 3, "n": 3, "tokens_without_compression": 100.0, "tokens_with_compression": 50.0,
        "r": 1.0, "threshold": 2, "zone": "maintain", "pool": "main", "score": 1.0,
        "hard_boost_contribution": None,
    }  # fmt: skip
    assert answer["miners"]["m"]["total"] == pytest.approx(3 / 7)
    assert answer["miners"]["m"]["weight"] == 1.0
    assert answer["layers"][0]["sets"][0]["groups"] == ["unclassified"]
    assert "3 counted" not in err
    assert "6 counted = 6" in err


def test_accidents_are_counted_and_never_failures(score):
    """An accident of ours lowers neither y nor n, and is named in the counts."""
    accident = row(agent="m", attempt=3, resolved=False, ended="accident")
    _, answer, err = score([*BASE, *MINER, accident])
    assert answer["miners"]["m"]["tasks"]["t1"]["y"] == 3
    assert answer["input"]["accidents"] == 1
    assert answer["input"]["rows"] == 7
    assert "1 accidents of ours" in err


def test_an_accident_that_was_run_again_is_no_contradiction(score):
    """The same attempt told as an accident and then as a result counts once, as the result."""
    accident = row(agent="m", attempt=0, resolved=False, ended="accident")
    _, answer, _ = score([*BASE, accident, *MINER])
    assert (answer["input"]["accidents"], answer["input"]["duplicates"]) == (1, 0)


def test_an_attempt_told_twice_alike_counts_once(score):
    """Repeated rows are left out and counted."""
    _, answer, _ = score([*BASE, *MINER, *MINER[:2]])
    assert answer["input"]["duplicates"] == 2
    assert answer["miners"]["m"]["tasks"]["t1"]["y"] == 3


def test_an_attempt_told_twice_differently_is_refused(score):
    """A contradiction names task, attempt, agent and both lines; exit 2."""
    code, answer, err = score([*BASE, *MINER, MINER[1] | {"resolved": False}])
    assert (code, answer) == (2, None)
    assert err.strip() == (
        "race: task t1: attempt 1 of agent m is told twice with different results (lines 5 and 7)"
    )


def test_unknown_tasks_are_counted_and_named(score):
    """A run on a task that is not in the list takes no part."""
    _, answer, err = score([*BASE, *MINER, row("t9", "m")])
    assert answer["input"]["unknown_task"] == 1
    assert answer["input"]["unknown_tasks"] == ["t9"]
    assert "unknown tasks: t9" in err


@pytest.mark.parametrize(
    ("tokens", "field"),
    [
        ({"input_tokens": None}, "tokens_missing"),
        ({"output_tokens": -5}, "tokens_invalid"),
        ({"cached_input_tokens": -1}, "tokens_invalid"),
        ({"input_tokens": math.nan}, "tokens_missing"),
        ({"output_tokens": math.inf}, "tokens_missing"),
    ],
)
def test_runs_without_valid_tokens_still_resolve(score, tokens, field):
    """Missing, negative or non-finite counts leave mean tokens, not y; each is counted."""
    _, answer, _ = score([*BASE, *MINER[:2], MINER[2] | tokens])
    task = answer["miners"]["m"]["tasks"]["t1"]
    assert (task["y"], task["tokens_with_compression"]) == (3, 50.0)
    assert answer["input"][field] == 1


def test_resolved_without_a_baseline_is_not_scored(score):
    """No baseline run means nothing to compare with: no hard-task bonus out of missing data."""
    tasks = ({"instance_id": "t1"}, {"instance_id": "t2"})
    _, answer, err = score([*BASE, *MINER, row("t2", "m")], tasks)
    task = answer["miners"]["m"]["tasks"]["t2"]
    assert (task["score"], task["pool"]) == (None, "excluded")
    assert "no baseline run" in task["note"]
    assert answer["remarks"]["without_baseline"] == ["t2"]
    assert "1 tasks: not scored, no baseline run: t2" in err


def test_tasks_that_a_miner_did_not_run_are_counted(score):
    """A task without a run of the miner gives it no score there, and the count says so."""
    tasks = ({"instance_id": "t1"}, {"instance_id": "t2"}, {"instance_id": "t3"})
    _, answer, err = score([*BASE, *MINER, row("t2", "base")], tasks)
    assert set(answer["miners"]["m"]["tasks"]) == {"t1"}
    assert answer["remarks"]["not_attempted"] == {"m": 1}
    assert answer["remarks"]["without_runs"] == ["t3"]
    assert "m: 1 tasks without a run of its own" in err


def test_an_agent_whose_runs_are_all_accidents_has_no_score(score):
    """It stays in the answer with no score, which is not 0."""
    gone = row(agent="lost", resolved=False, ended="accident")
    _, answer, _ = score([*BASE, *MINER, gone])
    lost = answer["miners"]["lost"]
    assert (lost["tasks"], lost["total"], lost["main_score"], lost["weight"]) == ({}, None, None, 0.0)


def test_more_runs_than_planned_raise_n_and_are_named(score):
    """repeats 2 with three runs: n becomes max(x, y, 1) = 3, and the task is named."""
    _, answer, _ = score([*BASE, *MINER], ({"instance_id": "t1", "repeats": 2},))
    assert answer["miners"]["m"]["tasks"]["t1"]["n"] == 3
    assert answer["remarks"]["repeats_exceeded"] == ["t1"]


def test_without_planned_repeats_n_is_the_larger_number_of_runs(score):
    """Five baseline runs and three of the miner: n = 5."""
    more = [row(attempt=k) for k in range(3, 5)]
    _, answer, _ = score([*BASE, *more, *MINER], ({"instance_id": "t1"},))
    assert answer["miners"]["m"]["tasks"]["t1"]["n"] == 5


@pytest.mark.parametrize("repeats", [0, -1, 2.5, "3", True, math.nan])
def test_contradictory_repeats_are_refused(score, repeats):
    """A number of repeats that is no positive whole number names the file, the line and the value."""
    code, _, err = score([*BASE, *MINER], ({"instance_id": "t1", "repeats": repeats},))
    assert code == 2
    assert "tasks.jsonl: line 1: repeats: expected a whole number of at least 1" in err


def test_an_empty_file_is_refused(score):
    """Nothing to score is an error that names the file, not an empty table."""
    code, _, err = score([], text="\n\n")
    assert (code, "runs.jsonl: no run in it" in err) == (2, True)


def test_a_half_written_last_line_is_counted(score):
    """A crash in the middle of a line loses that run only; the count says so."""
    text = "".join(json.dumps(r) + "\n" for r in [*BASE, *MINER]) + '{"instance_id": "t1", "ag'
    code, answer, err = score([], text=text)
    assert code == 0
    assert answer["input"]["half_written"] == 1
    assert answer["input"]["rows"] == answer["input"]["counted"] + 1 == 7
    assert "1 half written" in err


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"instance_id": "t1", "ag', "line 2: not JSON: cut off"),
        ("[1]", "line 2: not an object"),
        ('{"instance_id": nothing}', "line 2: not JSON: Expecting value at column 17"),
        ('{"a": 1}, {"b": 2}', "line 2: not JSON: Extra data at column 9"),
        (json.dumps(row(agent="")), "line 2: agent: expected a non-empty string, found ''"),
        (
            json.dumps(row(instance_id=None)),
            "line 2: instance_id: expected a non-empty string, found nothing",
        ),
        (json.dumps(row(resolved="yes")), "line 2: resolved: expected true or false, found 'yes'"),
        (json.dumps(row(resolved=1)), "line 2: resolved: expected true or false, found 1"),
        (json.dumps(row(attempt=-1)), "line 2: attempt: expected a whole number from 0 or null"),
        (json.dumps(row(input_tokens="many")), "line 2: input_tokens: expected a number or null"),
        (json.dumps(row(input_tokens=True)), "line 2: input_tokens: expected a number or null"),
        (json.dumps(row(input_tokens=1.5)), "line 2: input_tokens: expected a whole number, found 1.5"),
        (json.dumps(row(ended="asleep")), "line 2: ended: expected one of submitted"),
    ],
)
def test_malformed_rows_name_the_line(score, line, what):
    """A row that is refused: file, line, what is wrong; exit 2, nothing scored."""
    code, answer, err = score([], text=f"{json.dumps(BASE[0])}\n{line}\n{json.dumps(BASE[1])}\n")
    assert (code, answer) == (2, None)
    assert "runs.jsonl: " + what in err
    assert len(err.strip().splitlines()) == 1


def test_huge_numbers_do_not_break_the_reader(score):
    """A count beyond any float is no number, and counts as absent."""
    _, answer, _ = score([*BASE, *MINER[:2], MINER[2] | {"input_tokens": 10**400}])
    assert answer["input"]["tokens_missing"] == 1


@pytest.mark.parametrize(
    ("tasks", "what"),
    [
        ([{"instance_id": ""}], "line 1: instance_id: expected a non-empty string"),
        ([{"instance_id": "t1"}, {"repeats": 3}], "line 2: instance_id"),
        ([{"instance_id": "t1"}, {"instance_id": "t1", "repeats": 3}], "line 2: task t1 is told twice"),
        ([{"instance_id": "t1", "merged_at": "soon"}], "line 1: merged_at: 'soon' is no ISO 8601 date"),
        ([], "no task in it"),
    ],
)
def test_malformed_task_lists_name_the_line(score, tasks, what):
    """A task list must be whole and unambiguous."""
    code, _, err = score([*BASE, *MINER], tasks)
    assert code == 2
    assert what in err


def test_a_baseline_without_runs_offers_the_nearest_agent(score):
    """A misspelt baseline is a usage error."""
    code, _, err = score([row(agent="bass"), *MINER])
    assert code == 2
    assert "no run of the baseline 'base'; did you mean bass?" in err


def test_a_missing_file_is_one_line(tmp_path, capsys):
    """A file that is not there is named."""
    assert run(["score", "--tasks", "no.jsonl", "--runs", "no.jsonl", "--baseline", "b"]) == 2
    assert capsys.readouterr().err.strip() == "race: no.jsonl: no such file"


@pytest.mark.slow
def test_parquet_gives_the_same_answer(score, tmp_path, capsys):
    """The same runs as Parquet give the same scores; a broken Parquet file is named."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [*BASE, *MINER, row("t9", "m"), row(agent="m", attempt=7, input_tokens=None)]
    _, expected, _ = score(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "runs.parquet")
    arguments = ["score", "--tasks", str(tmp_path / "tasks.jsonl"), "--baseline", "base", "--json"]
    assert run([*arguments, "--runs", str(tmp_path / "runs.parquet")]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    broken = tmp_path / "broken.parquet"
    broken.write_bytes((tmp_path / "runs.parquet").read_bytes()[:-40])
    assert run([*arguments, "--runs", str(broken)]) == 2
    assert "broken.parquet: not a readable Parquet file" in capsys.readouterr().err


def joined(task, baseline, miner):
    """Rows as the platform's query gives them: every baseline run beside every run of the miner."""
    return [
        {
            "task_id": 7, "task_name": task, "hotkey": "5Hot", "baseline_run_id": f"b{i}",
            "baseline_resolved": b["resolved"], "baseline_input_tokens": b["input_tokens"],
            "baseline_cached_input_tokens": None, "baseline_output_tokens": 0,
            "run_id": f"r{j}", "attempt_no": j, "run_resolved": m["resolved"],
            "run_input_tokens": m["input_tokens"], "run_cached_input_tokens": None,
            "run_output_tokens": 0, "time_taken_seconds": 2.5, "agent_steps": 4,
        }
        for i, b in enumerate(baseline)
        for j, m in enumerate(miner)
    ]  # fmt: skip


def test_a_validators_joined_rows_count_each_run_once(score):
    """Nine rows of three baseline and three miner runs are six runs, scored like ours."""
    ours = score([*BASE, *MINER])[1]["miners"]["m"]["tasks"]["t1"]
    _, answer, _ = score(joined("t1", BASE, MINER))
    assert answer["input"]["rows"] == 6
    assert answer["miners"]["5Hot"]["tasks"]["t1"] == ours


def test_a_validators_plain_rows_are_read(score):
    """One run per row, marked as baseline or not; a result that is null was never graded."""
    plain = [
        {"instance_id": "t1", "baseline_run": baseline, "hotkey": "5Hot", "attempt_no": k,
         "resolved": resolved, "input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 0}
        for baseline, tokens in ((True, 100), (False, 50))
        for k, resolved in enumerate((True, True, None))
    ]  # fmt: skip
    _, answer, _ = score(plain)
    task = answer["miners"]["5Hot"]["tasks"]["t1"]
    assert (task["x"], task["y"], task["r"]) == (2, 2, 1.0)
    assert answer["input"]["accidents"] == 2


def test_a_validators_contradiction_is_refused(score):
    """A run id that is told with two results names task and run."""
    rows = joined("t1", BASE, MINER)
    rows[4]["run_resolved"] = not rows[4]["run_resolved"]
    code, _, err = score(rows)
    assert code == 2
    assert "task t1: run r1 is told twice with different results" in err


@pytest.mark.parametrize("command", ["score", "leaderboard", "contamination"])
def test_what_is_made_up_is_said(tmp_path, capsys, command):
    """Sample tasks and scripted agents are named on the terminal and in JSON, by every command."""
    (tmp_path / "tasks.jsonl").write_text('{"instance_id": "t1", "sample": true}\n')
    rows = [row(agent="scripted/steady"), row(agent="mini")]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    files = [command, "--tasks", str(tmp_path / "tasks.jsonl"), "--runs", str(tmp_path / "runs.jsonl")]
    files += ["--baseline", "mini"] if command == "score" else []
    assert run(files) == 0
    text = capsys.readouterr().out
    assert "SAMPLE: " in text
    assert "SCRIPTED: scripted/steady know" in text
    assert run([*files, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["sample"], answer["scripted"]) == (True, ["scripted/steady"])
    if command == "contamination":
        assert run([*files, "--svg", str(tmp_path / "eras.svg")]) == 0
        assert "sample release, scripted agents: simulated" in (tmp_path / "eras.svg").read_text()


def test_explain_follows_the_arithmetic(score, tmp_path, capsys):
    """--explain prints counts, tokens, ratio, threshold, zone and score of one task."""
    score([*BASE, *MINER])
    arguments = ["score", "--tasks", str(tmp_path / "tasks.jsonl"), "--runs",
                 str(tmp_path / "runs.jsonl"), "--baseline", "base"]  # fmt: skip
    assert run([*arguments, "--explain", "t1"]) == 0
    text = capsys.readouterr().out
    for step in (
        "x = 3 resolved baseline runs, y = 3 resolved miner runs, n = 3 runs",
        "r = clamp(log2(100 / 50), -2, 2) = 1",
        "t = floor(0.8 * x) = floor(2.4) = 2",
        "pool main, zone maintain: t <= y <= x",
        "score = r = 1",
    ):
        assert step in text
    assert run([*arguments, "--explain", "t2"]) == 2
    assert "has no task 't2'; did you mean t1?" in capsys.readouterr().err


def test_csv_has_one_line_per_miner_and_task(score, tmp_path, capsys):
    """The CSV holds the same numbers as the JSON."""
    score([*BASE, *MINER])
    arguments = ["score", "--tasks", str(tmp_path / "tasks.jsonl"), "--runs",
                 str(tmp_path / "runs.jsonl"), "--baseline", "base", "--csv"]  # fmt: skip
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("miner,instance_id,x,y,n,tokens_without_compression")
    assert lines[1] == "m,t1,3,3,3,100.0,50.0,1.0,2,maintain,main,1.0,,"


def test_fix_size_is_counted_in_the_patch_when_it_is_not_told():
    """Only lines inside hunks count: removed lines that look like headers are lines."""
    patch = "\n".join(
        ["diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,3 +1,3 @@ def f", " a", "--- old", "+++ new",
         " b", "\\ No newline at end of file", "@@ -9 +9,2 @@", "-x", "+y", "+z", ""]
    )  # fmt: skip
    assert changed_lines(patch) == 5
    assert read_task({"instance_id": "t", "patch": patch}).fix_lines == 5
    assert read_task({"instance_id": "t", "patch": patch, "fix_lines": 3}).fix_lines == 3


def test_task_rows_take_the_merge_date_first():
    """merged_at wins over created_at; a moment is turned into its UTC day."""
    found = read_task(
        {"instance_id": "t", "created_at": "2024-01-01", "merged_at": "2025-12-31T23:30:00-02:00"}
    )
    assert found.merged.isoformat() == "2026-01-01"
    composite = {"instance_id": "t", "created_at": "2024-01-01", "members": ["a", "b"]}
    assert read_task(composite).merged is None
    with pytest.raises(UsageError, match="complexity: expected text"):
        read_task({"instance_id": "t", "complexity": 3})


def test_reading_a_folder_is_refused(tmp_path, capsys):
    """A path that cannot be read as a file is one line."""
    assert run(["score", "--tasks", str(Path(tmp_path)), "--runs", "x", "--baseline", "b"]) == 2
    assert "cannot read" in capsys.readouterr().err
