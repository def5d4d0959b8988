"""Mining from GitHub's API, against a server that speaks it from a real clone."""

from __future__ import annotations

import json
import lzma
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from race.adapters.git_history import GitHistory
from race.adapters.git_scratch import ScratchRepository
from race.adapters.github_client import GithubClient
from race.adapters.github_history import GithubHistory
from race.cli import run
from race.core.records import Mined
from race.errors import Missing, RateLimited, Unreachable, UsageError
from race.sample import write_sample
from race.settings import MineSection, read_workspace
from race.store import Store
from race.work.mining import Judged, judge
from race.work.source import ensure_source
from race.workbench import Workbench

REPO = "sample/brook"


@pytest.fixture(scope="module")
def brook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("brook") / "project"
    write_sample(path)
    return path


def quiet(what: str, done: int, total: int) -> None:
    pass


def judged(history: Any) -> dict[int, Judged]:
    requests = list(history.pull_requests())
    return {found.record.pr: found for found in judge(history, requests, MineSection(), quiet)}


def client(server: Any, cache: Path | None = None, **settings: Any) -> GithubClient:
    return GithubClient(api_url=server.url, cache=cache, **settings)


@pytest.mark.slow
def test_both_sources_give_the_same_candidates(brook: Path, github: Callable[..., Any]) -> None:
    """Record for record and patch byte for patch byte, a clone and the API agree."""
    server = github(brook, REPO)
    from_clone = judged(GitHistory(brook, REPO))
    from_api = judged(GithubHistory(REPO, client(server), ScratchRepository()))
    assert from_api == from_clone
    assert sum(found.record.accepted for found in from_api.values()) >= 10


def test_a_small_project_gives_the_same_from_both_sources(
    small: Any, github: Callable[..., Any]
) -> None:
    """A merge commit, a squash commit and one that only writes documentation."""
    server = github(small.path, REPO)
    from_clone = judged(GitHistory(small.path, REPO))
    from_api = judged(GithubHistory(REPO, client(server), ScratchRepository()))
    assert from_api == from_clone
    assert {pr for pr, found in from_api.items() if found.record.accepted} == {1}


def test_trees_and_archives_are_the_same(small: Any, github: Callable[..., Any]) -> None:
    """What later stages ask of a history does not depend on its source."""
    small.commit("Move (#9)", {"bin/tool": "x\n", "pkg/deep/er/mod.py": "y = 1\n"})
    server = github(small.path, REPO)
    local, remote = (
        GitHistory(small.path, REPO),
        GithubHistory(REPO, client(server), ScratchRepository()),
    )
    commit = next(iter(local.pull_requests())).merge_commit
    assert remote.archive(commit) == local.archive(commit)
    assert remote.files(commit) == local.files(commit)
    assert remote.top(commit) == local.top(commit)
    assert remote.read(commit, "pkg/counter.py") == local.read(commit, "pkg/counter.py")
    assert remote.read(commit, "no/such") is None


def test_a_second_run_costs_nothing_of_the_limit(
    small: Any, github: Callable[..., Any], tmp_path: Path
) -> None:
    """Kept answers are asked for conditionally, or not at all when they cannot change."""
    server = github(small.path, REPO)
    cache = tmp_path / "cache"
    judged(GithubHistory(REPO, client(server, cache), ScratchRepository()))
    spent, server.served[:] = server.remaining, []
    again = judged(GithubHistory(REPO, client(server, cache), ScratchRepository()))
    assert server.remaining == spent
    assert {status for status, _ in server.served} == {304}
    assert len(again) == len(server.requests)


def test_a_limit_is_waited_for(small: Any, github: Callable[..., Any]) -> None:
    """When the hour's requests are spent, the client waits until they are given back."""
    server = github(small.path, REPO, limit=5)
    server.reset = time.time() + 1000
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        server.limit, server.reset = 100_000, 0.0

    history = GithubHistory(REPO, client(server, sleep=sleep), ScratchRepository())
    assert len(judged(history)) == len(server.requests)
    assert len(pauses) == 1
    assert 900 < pauses[0] < 1003


def test_a_long_limit_ends_the_run_and_the_next_one_goes_on(
    small: Any, github: Callable[..., Any], tmp_path: Path
) -> None:
    """Nothing that was asked for is lost: the sum of both runs is one run's number of requests."""
    whole = github(small.path, REPO)
    judged(GithubHistory(REPO, client(whole), ScratchRepository()))
    needed = whole.limit - whole.remaining
    server = github(small.path, REPO, limit=needed // 2)
    cache = tmp_path / "cache"
    with pytest.raises(RateLimited) as caught:
        judged(GithubHistory(REPO, client(server, cache, wait_at_most=60), ScratchRepository()))
    assert caught.value.retry_after is not None
    assert caught.value.retry_after > 60
    server.limit, server.reset = 100_000, 0.0
    judged(GithubHistory(REPO, client(server, cache), ScratchRepository()))
    assert server.limit - server.remaining <= needed - needed // 2 + 3


def test_secondary_limits_and_server_failures_are_ridden_out(
    small: Any, github: Callable[..., Any]
) -> None:
    """Retry-After is obeyed; a 502 is tried again, each time after a longer pause."""
    server = github(small.path, REPO)
    server.faults = [
        (403, {"Retry-After": "7"}, "You have exceeded a secondary rate limit"),
        (502, {}, "Bad gateway"),
        (503, {}, "Unavailable"),
        (429, {"Retry-After": "3"}, "Too many requests"),
    ]
    pauses: list[float] = []
    history = GithubHistory(REPO, client(server, sleep=pauses.append), ScratchRepository())
    assert len(list(history.pull_requests())) == len(server.requests)
    assert pauses == [7.0, 2.0, 4.0, 3.0]


def test_a_server_that_stays_down_is_an_accident(small: Any, github: Callable[..., Any]) -> None:
    """Five failures in a row, or nobody listening, end the run without a verdict."""
    server = github(small.path, REPO)
    server.faults = [(500, {}, "boom")] * 5
    with pytest.raises(Unreachable, match="status 500, 5 times"):
        list(
            GithubHistory(
                REPO, client(server, sleep=lambda s: None), ScratchRepository()
            ).pull_requests()
        )
    nobody = GithubClient(api_url="http://127.0.0.1:9", sleep=lambda s: None)
    with pytest.raises(Unreachable, match=r"/repos/a/b: no connection \(\w+\), 5 times"):
        nobody.get("/repos/a/b")


def test_refusals_say_what_to_do(small: Any, github: Callable[..., Any]) -> None:
    """A bad token is the user's to mend, an unknown project is a wrong command line."""
    server = github(small.path, REPO)
    server.faults = [(401, {}, "Bad credentials")]
    with pytest.raises(Missing, match="GITHUB_TOKEN"):
        client(server, token="wrong").get(f"/repos/{REPO}")
    with pytest.raises(UsageError, match="not found"):
        client(server).get("/repos/sample/nothing")
    with pytest.raises(UsageError, match="no address"):
        GithubClient(api_url="not-an-address")


def test_issues_connected_by_hand_are_linked(small: Any, github: Callable[..., Any]) -> None:
    """The timeline knows of issues that no closing keyword names."""
    server = github(small.path, REPO, connected={1: 900})
    found = judged(GithubHistory(REPO, client(server), ScratchRepository()))
    assert found[1].record.linked_issues == ("sample/brook#900",)


def searching(server: Any, *queries: str, cache: Path | None = None, **settings: Any) -> GithubHistory:
    return GithubHistory(REPO, client(server, cache, **settings), ScratchRepository(), queries)


@pytest.fixture(scope="module")
def many(three: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Six more pull requests, one a day, half of them with a word in the title."""
    project = three.copy(tmp_path_factory.mktemp("many") / "project")
    for number in range(10, 16):
        word = "deadlock" if number % 2 else "table"
        project.commit(f"Fix {word} of {number} (#{number})", {"pkg/counter.py": f"x = {number}\n"})
    return project


def numbers(history: GithubHistory, **window: Any) -> list[int]:
    return sorted(request.number for request in history.pull_requests(**window))


def test_a_search_looks_at_what_it_finds_alone(many: Any, github: Callable[..., Any]) -> None:
    """In GitHub's own language, several queries together, each pull request once."""
    server = github(many.path, REPO, per_page=2, foreign=12)
    assert numbers(searching(server, "deadlock in:title")) == [11, 13, 15]
    assert numbers(searching(server, "deadlock in:title", "race OR deadlock")) == [1, 11, 13, 15]
    assert not any("/pulls?" in path for _, path in server.served)
    assert numbers(searching(server, "words")) == [1, 11, 13, 15]
    from_clone = {request.number: request for request in GitHistory(many.path, REPO).pull_requests()}
    for request in searching(server, "deadlock").pull_requests():
        assert request == from_clone[request.number]
    since = datetime.fromisoformat(from_clone[13].merged_at)
    assert numbers(searching(server, "deadlock"), since=since) == [13, 15]
    assert numbers(searching(server, "deadlock"), until=since) == [11]


def test_a_search_with_too_many_results_is_cut_by_dates(
    many: Any, github: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost at the cap, nor where the server did not search to its end."""
    monkeypatch.setattr("race.adapters.github_search.MOST_RESULTS", 2)
    server = github(many.path, REPO, search_cap=2, search_limit=1000)
    assert numbers(searching(server, "deadlock")) == [11, 13, 15]
    monkeypatch.setattr("race.adapters.github_search.MOST_RESULTS", 1000)
    server = github(many.path, REPO, search_cut_off=2, search_limit=1000)
    assert numbers(searching(server, "deadlock")) == [11, 13, 15]


def test_a_day_that_is_cut_off_is_told(many: Any, github: Callable[..., Any]) -> None:
    """When no smaller window is left, what came is taken and the gap is named."""
    server = github(many.path, REPO, search_cut_off=1000, search_limit=10_000)
    said: list[str] = []
    day = datetime.fromisoformat(
        next(r for r in GitHistory(many.path, REPO).pull_requests() if r.number == 15).merged_at
    ).replace(hour=0, minute=0, second=0)
    history = searching(server, "deadlock", say=said.append)
    assert numbers(history, since=day, until=day.replace(hour=23)) == [15]
    assert any("cut off by the server" in line for line in said)


def test_a_search_limit_is_waited_for_and_nothing_is_searched_twice(
    many: Any, github: Callable[..., Any], tmp_path: Path
) -> None:
    """Thirty searches a minute; a run that is stopped after its search goes on without one."""
    server = github(many.path, REPO, per_page=2, search_limit=1)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        server.search_reset = 0.0

    cache = tmp_path / "cache"
    assert len(numbers(searching(server, "deadlock", cache=cache, sleep=sleep))) == 3
    assert len(pauses) == 1
    assert all(0 < pause <= 62 for pause in pauses)
    server.served.clear()
    server.limit, server.remaining, server.reset = 1, 0, time.time() + 5000
    again = numbers(searching(server, "deadlock", cache=cache, wait_at_most=1))
    assert again == [11, 13, 15]
    assert not any("/search/" in path for _, path in server.served)
    assert {status for status, _ in server.served} == {304}


VAGUE = """
class Counter:
    async def add(self):
        value = self.value
        await pause()
        self.value = value + 1
"""
VAGUE_FIX = """
class Counter:
    async def add(self):
        async with self._lock:
            value = self.value
            await pause()
            self.value = value + 1
"""
VAGUE_TEST = """
import asyncio


async def test_values():
    counter = Counter()
    await asyncio.gather(counter.add(), counter.add())
    assert counter.value == 2
"""


def test_a_clone_with_what_the_api_told_gives_the_same(
    small: Any, github: Callable[..., Any], release: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The issue tips the scale; a clone alone lacks its words, with the saved file it has them."""
    small.commit("Start anew", {"pkg/counter.py": VAGUE, "tests/test_counter.py": "import asyncio\n"})
    small.commit(
        "Correct Counter.add (#7)", {"pkg/counter.py": VAGUE_FIX, "tests/test_counter.py": VAGUE_TEST}
    )
    issue = ("Counter deadlocks", "Two tasks race for it: concurrent adds hang, one waits forever.")
    server = github(small.path, REPO, issues={40: issue}, bodies={7: "Fixes #40"})
    monkeypatch.setenv("RACE_CACHE", str(tmp_path / "cache"))
    saved = tmp_path / "told.jsonl"
    asked = ["--github", REPO, "--api-url", server.url, "--save-pull-requests", str(saved), "--json"]
    assert run(["mine", str(release), *asked]) == 0
    from_api = {row["pr"]: row for row in json.loads(capsys.readouterr().out)["candidates"]}
    assert 7 in from_api
    assert "issue:matter" in from_api[7]["signals"]
    clone = ["mine", str(tmp_path / "other"), "--clone", str(small.path), "--repo", REPO, "--json"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "release.toml").write_bytes((release / "release.toml").read_bytes())
    assert run(clone) == 0
    alone = {row["pr"]: row for row in json.loads(capsys.readouterr().out)["candidates"]}
    assert set(alone) == set(from_api) - {7}
    assert run([*clone, "--pull-requests", str(saved)]) == 0
    told = {row["pr"]: row for row in json.loads(capsys.readouterr().out)["candidates"]}
    assert told == from_api


def test_since_ends_the_listing_early(small: Any, github: Callable[..., Any]) -> None:
    """Pages of what was merged long before are not asked for."""
    server = github(small.path, REPO, per_page=1)
    history = GithubHistory(REPO, client(server), ScratchRepository())
    newest = next(iter(GitHistory(small.path, REPO).pull_requests()))
    found = list(history.pull_requests(since=datetime.fromisoformat(newest.merged_at)))
    assert [request.number for request in found] == [newest.number]
    assert sum("/pulls?" in path for _, path in server.served) <= 2


def test_the_command_mines_through_the_api(
    small: Any, github: Callable[..., Any], release: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """`race mine R --github OWNER/NAME --api-url URL --json` gives what a clone gives."""
    server = github(small.path, REPO)
    monkeypatch.setenv("RACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    code = run(["mine", str(release), "--github", REPO, "--api-url", server.url, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    numbers = {row["pr"] for row in json.loads(out)["candidates"]}
    assert numbers == {
        pr for pr, found in judged(GitHistory(small.path, REPO)).items() if found.record.accepted
    }
    for number in numbers:
        assert (release / f"sample__brook-{number}" / "fix.patch").read_bytes()


def test_a_project_without_a_clone_gets_its_source_from_its_server(
    small: Any, github: Callable[..., Any], release: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What validation starts from is, byte for byte, what a clone gives; without both it is said."""
    server = github(small.path, REPO)
    monkeypatch.setenv("RACE_CACHE", str(tmp_path / "cache"))
    assert run(["mine", str(release), "--github", REPO, "--api-url", server.url]) == 0
    store = Store(release)
    bench = Workbench(read_workspace(tmp_path, dict(os.environ)))
    mined = next(one for name in store.ids() if (one := store.task(name).read(Mined)) is not None)
    task = store.task(mined.instance_id)
    source, tar = ensure_source(bench, store, task, mined, None)
    assert tar == GitHistory(small.path, REPO).archive(mined.base_commit)
    assert lzma.decompress(task.read_file(source)) == tar
    store.write_local("github.json", {})
    with pytest.raises(Missing, match=r"needs a clone of .* --github sample/brook"):
        ensure_source(bench, store, task, mined, None)
