"""`race mine` on real repositories: verdicts, patches, second runs, odd files, bad input."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from race.adapters.git_history import GitHistory
from race.cli import run
from race.core.mining.decision import score
from race.core.records import Mined
from race.ports import ModelReply
from race.progress import Progress
from race.settings import MineSection
from race.store import Store
from race.work.mining import judge
from race.work.mining_run import Order, mine_histories
from race.work.rejected import read_rejected

REPO = "someone/project"
Files = dict[str, "bytes | str | None"]


def mine(release: Path, repository: Any, *options: str) -> int:
    return run(["mine", str(release), "--clone", str(repository.path), "--repo", REPO, *options])


def record(release: Path, number: int) -> Mined:
    """A pull request's record, wherever its verdict put it."""
    store = Store(release)
    name = f"someone__project-{number}"
    found = store.task(name).read(Mined) or read_rejected(store)[name]
    assert isinstance(found, Mined)
    return found


def alive(pid: str) -> bool:
    """Does a process run, other than as a zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def fixing(repository: Any, number: int, files: Files, title: str = "") -> str:
    """A squash commit that fixes the race of `small`'s counter once more, with other files besides."""
    n = number
    code = (
        f"async def add_{n}(self):\n    value = self.value\n    await pause()\n    self.value = value\n"
    )
    lock = f"async def add_{n}(self):\n    async with self._lock:\n        self.value += 1\n"
    test = (
        f"async def test_two_tasks_do_not_race_{n}():\n"
        f"    tasks = [asyncio.create_task(add_{n}(c)) for _ in 'ab']\n"
        "    await asyncio.wait_for(asyncio.gather(*tasks), 5)\n    assert c.value == 2\n"
    )
    repository.commit("prepare", {f"pkg/m{n}.py": code})
    changed: Files = {f"pkg/m{n}.py": lock, f"tests/test_m{n}.py": test, **files}
    return str(
        repository.commit(title or f"Fix race condition between concurrent tasks (#{n})", changed)
    )


def applies(repository: Any, release: Path, number: int) -> None:
    """Both patches apply to the base and give the merge commit's files."""
    found = record(release, number)
    assert found.accepted, found.findings
    folder = release / found.instance_id
    repository.git("checkout", "-q", "-f", found.base_commit)
    for name in ("fix.patch", "test.patch"):
        repository.git("apply", "--index", str(folder / name))
    for path in (*found.product_files, *found.test_files):
        left = repository.git("ls-files", "-s", path).split()[:2]
        right = repository.git("ls-tree", "-r", found.merge_commit, path).split()
        assert left == ([right[0], right[2]] if right else []), path
    repository.git("checkout", "-q", "-f", "main")


def test_a_fix_becomes_a_task_and_the_rest_is_turned_down(small: Any, release: Path) -> None:
    """Each pull request ends in one place, with its reason; the tally adds up."""
    assert mine(release, small) == 0
    applies(small, release, 1)
    found = record(release, 1)
    assert (found.kind, found.licence, found.merge_style) == ("race", "Apache-2.0", "merge")
    assert found.fix_lines == 7
    assert found.product_files == ("pkg/counter.py",)
    assert {f.rule for f in record(release, 2).findings} == {"not-concurrency"}
    assert {f.rule for f in record(release, 3).findings} == {"no-product-code"}


def test_the_score_can_be_added_up_from_the_record(small: Any, release: Path) -> None:
    """The record alone says how the score came about."""
    mine(release, small)
    for number in (1, 2):
        found = record(release, number)
        assert found.score == score(found.signals)
        assert {"base:fix", "base:matter", "base:tests"} <= set(found.signals)


def test_what_the_fix_says_of_itself_is_kept_for_the_audit(small: Any, release: Path) -> None:
    """The request's text without its trailers, and the changelog entry with its file's name."""
    entry = {"newsfragments/30.bugfix.rst": "Concurrent tasks do not overwrite each other.\n"}
    text = "The lock is held now.\n\nCo-authored-by: Sample Author <sample@example.invalid>"
    fixing(small, 30, entry, f"Fix race condition between concurrent tasks (#30)\n\n{text}")
    mine(release, small)
    assert record(release, 30).told == (
        "The lock is held now.",
        "30.bugfix.rst\nConcurrent tasks do not overwrite each other.",
    )
    assert record(release, 2).told == ()


def test_the_json_names_every_pull_request_once(
    small: Any, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Known ones are in the answer of a second run as well, with the same fields."""
    mine(release, small, "--json")
    first = json.loads(capsys.readouterr().out)
    mine(release, small, "--json")
    out, err = capsys.readouterr()
    assert json.loads(out) == first
    assert "0 done + 3 skipped + 0 rejected + 0 pending = 3" in err
    assert [row["pr"] for row in first["candidates"] + first["rejected"]] == [1, 3, 2]
    wanted = {"repo", "pr", "merge_commit", "base_commit", "title", "merged_at", "licence", "accepted",
              "score", "kind", "signals", "reasons"}  # fmt: skip
    for row in first["candidates"] + first["rejected"]:
        assert wanted <= set(row)
        assert row["accepted"] == (not row["reasons"])


def test_a_second_run_looks_only_at_what_is_new(
    small: Any, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what it writes is what one run over everything writes."""
    mine(release, small)
    fixing(small, 4, {})
    capsys.readouterr()
    mine(release, small)
    out, err = capsys.readouterr()
    assert "1 pull requests to look at, 3 known" in err
    assert "1 done + 3 skipped + 0 rejected + 0 pending = 4" in out
    both = {p.name: p.read_bytes() for p in release.rglob("*") if p.is_file() and "local" not in p.parts}
    for path in release.rglob("*"):
        if path.is_file() and path.name != "release.toml":
            path.unlink()
    mine(release, small)
    again = {
        p.name: p.read_bytes() for p in release.rglob("*") if p.is_file() and "local" not in p.parts
    }
    assert again == both


def test_changed_rules_make_everything_due_again(
    small: Any, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verdict holds for the settings it was made with."""
    mine(release, small)
    toml = release / "release.toml"
    toml.write_text(toml.read_text() + "\n[mine]\nthreshold = 0.999\n")
    capsys.readouterr()
    mine(release, small)
    assert "3 pull requests to look at, 0 known" in capsys.readouterr().err
    assert not record(release, 1).accepted
    assert (release / "someone__project-1" / "mine.json").is_file()


def test_odd_files_go_through_unharmed(small: Any, release: Path) -> None:
    """Carriage returns, bytes that are no UTF-8, binaries, modes, renames, links, deletions."""
    small.commit("lay out", {
        "pkg/crlf.py": b"a = 1\r\nb = 2\r\n", "pkg/latin.py": b"# \xe9\nx = 1\n",
        "pkg/old.py": "y = 1\n" * 9, "pkg/run.py": "z = 1\n", "pkg/data.bin": bytes(range(256)),
        "tests/data/blob.bin": b"\0\1",
        "tests/gone.txt": "bye\n", "pkg/no_end.py": "w = 1", "pkg/with space.py": "s = 1\n",
    })  # fmt: skip
    (small.path / "pkg" / "run.py").chmod(0o755)
    (small.path / "pkg" / "way").symlink_to("run.py")
    fixing(small, 5, {
        "pkg/crlf.py": b"a = 1\r\nb = 3\r\n", "pkg/latin.py": b"# \xe9\xe8\nx = 2\n", "pkg/old.py": None,
        "pkg/new.py": "y = 1\n" * 9, "pkg/data.bin": bytes(range(255, -1, -1)),
        "tests/data/blob.bin": b"\0\2\3", "tests/gone.txt": None, "pkg/no_end.py": "w = 2",
        "pkg/with space.py": "s = 2\n", "docs/changes.md": "Fixed a race.\n", "README.md": "More.\n",
    })  # fmt: skip
    assert mine(release, small) == 0
    applies(small, release, 5)
    found = record(release, 5)
    assert "pkg/old.py" in found.product_files
    assert set(found.other_files) == {"README.md", "docs/changes.md"}


def test_a_submodule_is_in_neither_patch(small: Any, release: Path) -> None:
    """Its commit lies in another repository."""
    other = small.git("rev-parse", "HEAD")
    small.git("update-index", "--add", "--cacheinfo", f"160000,{other},pkg/sub")
    small.git("commit", "-q", "-m", "prepare")
    fixing(small, 6, {})
    found = (mine(release, small), record(release, 6))[1]
    assert found.accepted
    assert not any("sub" in path for path in (*found.product_files, *found.test_files))


def test_a_name_that_is_no_utf8_is_turned_down(small: Any, release: Path) -> None:
    """It cannot be named in a record."""
    odd = bytes(small.path) + b"/pkg/\xff.py"
    Path(odd.decode(errors="surrogateescape")).write_text("q = 1\n")
    fixing(small, 7, {})
    small.git("reset", "-q", "--soft", "HEAD~1")
    Path(odd.decode(errors="surrogateescape")).write_text("q = 2\n")
    small.commit("Fix race condition between concurrent tasks (#7)")
    mine(release, small)
    assert {f.rule for f in record(release, 7).findings} == {"odd-path"}


def test_licences_decide(repository: Any, release: Path, licence_text: str) -> None:
    """None, one that is not allowed, and one that is: read at each pull request's own base."""
    copyleft = "GNU LESSER GENERAL PUBLIC LICENSE\n  Version 2.1, February 1999\n"
    repository.commit("start", {"pkg/__init__.py": ""})
    fixing(repository, 1, {})
    repository.commit("licence", {"LICENSE": licence_text})
    fixing(repository, 2, {})
    repository.commit("another", {"LICENSE": copyleft})
    fixing(repository, 3, {})
    mine(release, repository)
    assert {f.rule for f in record(release, 1).findings} == {"no-licence"}
    assert record(release, 2).accepted
    assert not record(release, 3).accepted


def test_too_large_fixes_are_turned_down(small: Any, release: Path) -> None:
    """The limit is the release's."""
    toml = release / "release.toml"
    toml.write_text(toml.read_text() + "\n[mine]\nmax_fix_lines = 3\n")
    mine(release, small)
    assert {f.rule for f in record(release, 1).findings} == {"too-large"}


def test_dates_and_limit_choose(small: Any, release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what was asked for is looked at, newest first."""
    assert mine(release, small, "--since", "2100-01-01") == 0
    assert "= 0" in capsys.readouterr().out
    assert mine(release, small, "--limit", "1") == 0
    assert "1 pull requests to look at, 0 known, 2 more left for later" in capsys.readouterr().err
    assert list(read_rejected(Store(release))) == ["someone__project-3"]


def test_a_clone_that_names_no_pull_request_says_what_to_do(
    repository: Any, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A project that puts commits on its branch without a number: nothing found is explained."""
    repository.commit("Fix race between concurrent tasks", {"a.py": "a = 1\n"})
    assert mine(release, repository) == 0
    said = capsys.readouterr().err
    assert "no commit of that time names a pull request" in said
    assert "--pull-requests FILE or --github OWNER/NAME" in said


def test_facts_bring_in_a_rebase_merge(small: Any, release: Path, tmp_path: Path) -> None:
    """Two commits put on the branch one by one are one task when a file says so."""
    base = small.git("rev-parse", "HEAD")
    fixing(small, 40, {}, title="first half")
    last = small.commit("second half", {"pkg/more.py": "m = 1\n"})
    row = {
        "number": 40,
        "merge_commit": last,
        "base_commit": base,
        "title": "Fix race condition between concurrent tasks",
        "linked_issues": ["a/b#39"],
    }
    facts = tmp_path / "facts.jsonl"
    facts.write_text(json.dumps(row) + "\n")
    assert mine(release, small, "--pull-requests", str(facts)) == 0
    found = record(release, 40)
    assert (found.merge_style, found.base_commit, found.linked_issues) == (
        "rebase",
        base,
        ("a/b#39",),
    )
    assert "pkg/more.py" in found.product_files
    applies(small, release, 40)


class Oracle:
    """A model behind its port that answers from a list and keeps what it was asked."""

    name = "test/oracle"

    def __init__(self, *answers: str) -> None:
        self.answers, self.asked = list(answers), []  # type: tuple[list[str], list[Any]]

    def ask(self, messages: Any, *, max_tokens: int = 4096) -> ModelReply:
        self.asked.append(messages)
        return ModelReply(self.answers.pop(0), 10, None, 5, None)


@pytest.mark.parametrize(
    ("answer", "added"),
    [
        ('Sure. {"yes": true, "sure": 1}', 2.0),
        ('{"yes": false, "sure": 0.5}', -1.0),
        ("I cannot say.", None),
    ],
)
def test_a_second_opinion_adds_one_signal(
    small: Any, monkeypatch: pytest.MonkeyPatch, answer: str, added: float | None
) -> None:
    """Only where the rules are unsure; a reply that is no answer changes nothing."""
    history = GitHistory(small.path, REPO)
    requests = list(history.pull_requests())

    def records(model: Any) -> dict[int, Mined]:
        judged = judge(history, requests, MineSection(), lambda *told: None, model)
        return {found.record.pr: found.record for found in judged}

    oracle = Oracle(answer)
    monkeypatch.setattr("race.work.weighing.UNSURE", (0.5, 1.0))
    alone, asked = records(None), records(oracle)
    assert len(oracle.asked) == 1
    assert "race condition" in oracle.asked[0][1]["content"]
    assert asked[2] == alone[2]
    assert asked[1].signals == alone[1].signals | ({} if added is None else {"model:test/oracle": added})
    assert asked[1].score == score(asked[1].signals)
    assert (asked[1].score > alone[1].score) == (added == 2.0)
    (call,) = asked[1].calls
    assert (call.role, call.model) == ("miner", "test/oracle")
    assert (call.input_tokens, call.output_tokens, call.cost_usd) == (10, 5, None)
    assert bool(call.problem) == (added is None)
    assert not alone[1].calls


def test_the_cost_of_second_opinions_is_told_and_recorded(
    small: Any, release: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens and price in the closing line, each call in its record, also of those turned down."""
    monkeypatch.setattr("race.work.weighing.UNSURE", (0.0, 1.0))
    oracle = Oracle('{"yes": false, "sure": 1}', '{"yes": true, "sure": 1}')
    history = GitHistory(small.path, REPO)
    mine_histories(Store(release), [history], Order(model=oracle), progress=Progress("mine", 1))
    assert "2 second opinions, 30 tokens, price unknown" in capsys.readouterr().err
    (turned_down,) = read_rejected(Store(release))["someone__project-2"].calls
    (accepted,) = record(release, 1).calls
    for call in (turned_down, accepted):
        assert (call.role, call.input_tokens, call.output_tokens) == ("miner", 10, 5)


def test_malformed_facts_are_named(
    small: Any, release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line, field, what is wrong; and a commit that the clone does not have."""
    facts = tmp_path / "facts.jsonl"
    facts.write_text(
        '{"repo": "a/b", "pr": 1, "merge_commit": "abcdef12"}\n{"repo": "a/b", "pr": "x"}\n'
    )
    assert mine(release, small, "--pull-requests", str(facts)) == 2
    assert "facts.jsonl: line 2: pr" in capsys.readouterr().err
    facts.write_text(json.dumps({"repo": REPO, "pr": 1, "merge_commit": "f" * 40}) + "\n")
    assert mine(release, small, "--pull-requests", str(facts)) == 2
    assert "no commit ffff" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "say what to mine"),
        (["--clone", "."], 2, "needs its --repo"),
        (["--clone", ".", "--repo", "nonsense"], 2, "not OWNER/NAME"),
        (["--clone", "/nonexistent/x", "--repo", "a/b"], 2, "no such folder"),
        (["--clone", "/usr", "--repo", "a/b"], 2, "not a git repository"),
        (["--github", "a/b", "--api-url", "ftp:x"], 2, "no address"),
        (["--since", "yesterday", "--clone", ".", "--repo", "a/b"], 2, "yesterday"),
        (
            ["--since", "2026-02-01", "--until", "2026-01-01", "--clone", ".", "--repo", "a/b"],
            2,
            "no day is left between --since 2026-02-01 and --until 2026-01-01",
        ),
        (["--clone", ".", "--repo", "a/b", "--search", "deadlock"], 2, "needs --github"),
    ],
)
def test_bad_command_lines_get_one_line(
    release: Path, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong, and the documented exit code."""
    assert run(["mine", str(release), *arguments]) == code
    assert said in capsys.readouterr().err


def test_a_damaged_list_of_rejected_is_named_with_its_line(
    small: Any, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line, what is wrong; nothing is overwritten."""
    mine(release, small)
    path = release / "rejected.jsonl"
    path.write_text(path.read_text() + '{"pr": "x"}\n')
    before = path.read_bytes()
    capsys.readouterr()
    assert mine(release, small) == 2
    assert "rejected.jsonl: line 3" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_many_are_read_by_several_processes(
    small: Any, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same verdicts as one process gives."""
    import race.work.diff_reading as mining

    mine(release, small)
    alone = {n: record(release, n) for n in (1, 2, 3)}
    monkeypatch.setattr(mining, "FEW", 1)
    for path in (release / "rejected.jsonl", release / "someone__project-1" / "mine.json"):
        path.unlink()
    mine(release, small)
    assert {n: record(release, n) for n in (1, 2, 3)} == alone


@pytest.mark.slow
def test_workers_of_a_killed_run_end(small: Any, release: Path) -> None:
    """Nothing is left running when the command is killed while several processes read."""
    for number in range(10, 22):
        fixing(small, number, {})
    code = (
        "import time, race.work.diff_reading as mining, race.cli as cli\n"
        "def read_batch(readings):\n    time.sleep(600)\n"
        "mining.FEW, mining.BATCH, mining.read_batch = 1, 1, read_batch\n"
        f"cli.run(['mine', {str(release)!r}, '--clone', {str(small.path)!r}, '--repo', {REPO!r}])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers: list[str] = []
    until = time.monotonic() + 60
    while len(workers) < 3 and time.monotonic() < until:
        workers = children.read_text().split()
        time.sleep(0.05)
    process.kill()
    process.wait()
    until = time.monotonic() + 30
    while any(alive(worker) for worker in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(workers) >= 3
    assert not [worker for worker in workers if alive(worker)]


@pytest.mark.slow
def test_a_killed_run_loses_nothing(small: Any, release: Path) -> None:
    """After SIGKILL at any moment the next run ends with the records of an undisturbed one."""
    for number in range(10, 16):
        fixing(small, number, {})
    command = [
        sys.executable,
        "-m",
        "race",
        "mine",
        str(release),
        "--clone",
        str(small.path),
        "--repo",
        REPO,
    ]
    luck = random.Random(7)
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(luck.uniform(0.3, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert mine(release, small) == 0
    killed = {
        p.name: p.read_bytes() for p in release.rglob("*") if p.is_file() and "local" not in p.parts
    }
    fresh = release.with_name("fresh")
    fresh.mkdir()
    (fresh / "release.toml").write_bytes((release / "release.toml").read_bytes())
    mine(fresh, small)
    whole = {p.name: p.read_bytes() for p in fresh.rglob("*") if p.is_file() and "local" not in p.parts}
    assert killed == whole
