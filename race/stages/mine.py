"""`race mine`: find merged pull requests that fix a concurrency bug, with tests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from datetime import time as clock
from pathlib import Path
from typing import Any

import click

from race.core.mining.decision import RULES
from race.core.mining.facts import PullRequestFacts
from race.core.records import Mined, digest
from race.errors import Accident, UsageError
from race.options import json_option, print_json, release_argument, verbose_option, workbench
from race.ports import History, Model
from race.progress import Progress
from race.store import Store, TaskFolder
from race.work.composing import mine_composites
from race.work.mining import Judged, instance_id, judge
from race.work.pull_request_facts import read_facts
from race.work.rejected import read_rejected, write_rejected
from race.work.source import SERVERS
from race.work.stage import Desk, Stage
from race.work.tally import Tally
from race.workbench import Workbench

_REPO = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9_.][\w.-]*$")


def rules_digest(store: Store) -> dict[str, str]:
    """What a verdict of mining was made from, besides the history: the rules and their settings."""
    rules = store.settings.mine.model_dump(mode="json", exclude={"since", "until"})
    return {"rules": digest({"rules": RULES, "settings": rules})[:16]}


def mine_histories(
    store: Store,
    histories: Iterable[History],
    *,
    since: date | None = None,
    until: date | None = None,
    limit: int | None = None,
    model: Model | None = None,
    progress: Progress,
) -> tuple[Tally, list[Mined]]:
    """Look at what is new in each history; the caller holds the release's lock.

    Returns the tally and every record that was asked for, known ones included, newest first. What
    was found before an accident is kept.
    """
    tally = Tally()
    wanted: list[Mined] = []
    for history in histories:
        try:
            chosen = (_day(since), _day(until), limit)
            _mine_one(store, history, *chosen, model, progress, tally, wanted)
        except Accident as error:
            tally.pending.append(history.repo)
            tally.accidents[history.repo] = str(error)
            progress.finished(history.repo, f"pending: {error}")
    return tally, wanted


def _mine_one(
    store: Store,
    history: History,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    model: Model | None,
    progress: Progress,
    tally: Tally,
    wanted: list[Mined],
) -> None:
    current = rules_digest(store)
    rejected = read_rejected(store)
    due, known = [], []
    for request in history.pull_requests(since=since, until=until):
        before = rejected.get(instance_id(request)) or store.task(instance_id(request)).read(Mined)
        same = before is not None and before.merge_commit == request.merge_commit
        if before is not None and same and before.inputs == current:
            known.append(before)
        else:
            due.append(request)
    due = due[:limit] if limit is not None else due
    progress.say(f"mine: {history.repo}: {len(due)} pull requests to look at, {len(known)} known")
    found: list[Mined] = []
    outcome = ""
    try:
        voice = _voice(progress, history.repo)
        for judged in judge(history, due, store.settings.mine, voice, model):
            record = _keep(store, judged, current, rejected)
            found.append(record)
            (tally.done if record.accepted else tally.rejected).append(record.instance_id)
    except Accident as error:
        left = {instance_id(request) for request in due} - {record.instance_id for record in found}
        tally.pending.extend(sorted(left))
        tally.accidents[history.repo] = str(error)
        outcome = f", {len(left)} pending: {error}"
    finally:
        write_rejected(store, rejected)
    tally.skipped.extend(record.instance_id for record in known)
    accepted = sum(record.accepted for record in found)
    outcome = f"{accepted} candidates, {len(found) - accepted} turned down{outcome}"
    progress.finished(history.repo, outcome)
    everything = [*known, *found]
    everything.sort(key=lambda record: (record.merged_at, record.pr), reverse=True)
    wanted.extend(everything)


def _voice(progress: Progress, repo: str) -> Callable[[str, int, int], None]:
    """Tells what is being looked at, with an estimate; a plain line every ten seconds."""
    started = told = time.monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if not total:
            progress.doing(repo, what)
            return
        left = f", about {(now - started) / done * (total - done):.0f} s left" if done else ""
        progress.doing(repo, f"{what} ({done}/{total}{left})")
        if now - told >= 10:
            told = now
            progress.say(f"mine: {repo}: {done} of {total} read{left}")

    return say


def _keep(store: Store, judged: Judged, inputs: dict[str, str], rejected: dict[str, Mined]) -> Mined:
    """Write an accepted candidate's folder, or put a rejected one on the list.

    A task that has a folder already keeps it, whatever the new verdict is.
    """
    sample = store.settings.release.sample
    record = judged.record.model_copy(update={"inputs": inputs, "sample": sample})
    task = store.task(record.instance_id)
    if record.accepted:
        files = {
            "fix_patch": task.write_file("fix.patch", judged.fix),
            "test_patch": task.write_file("test.patch", judged.test),
        }
        record = record.model_copy(update=files)
        rejected.pop(record.instance_id, None)
        task.write(record)
    elif task.read(Mined) is not None:
        task.write(record)
    else:
        rejected[record.instance_id] = record
    return record


def mine_release(
    store: Store,
    bench: Workbench,
    clones: Mapping[str, Path],
    *,
    progress: Progress,
    here: bool = False,
) -> Tally:
    """Mine local clones (`owner/name` -> path), and remember where they are.

    The caller holds the release's lock.
    """
    histories = [bench.clone(path, repo) for repo, path in sorted(clones.items())]
    remember(store, clones)
    section = store.settings.mine
    tally, _ = mine_histories(
        store, histories, since=section.since, until=section.until, progress=progress
    )
    compose(store, bench, progress, tally)
    return tally


def compose(store: Store, bench: Workbench, progress: Progress, tally: Tally) -> list[Mined]:
    """Make the release's composites from what is mined; their records, those that were current too."""
    written = set(mine_composites(store, bench, progress))
    found = []
    for section in store.settings.composite:
        record = store.task(section.id).read(Mined)
        if record is None:
            continue
        found.append(record)
        if section.id not in written:
            tally.skipped.append(section.id)
        else:
            (tally.done if record.accepted else tally.rejected).append(section.id)
    return found


def remember(store: Store, clones: Mapping[str, Path]) -> None:
    """Where clones are on this machine, for the stages that follow."""
    known = store.read_local("clones.json")
    named = known | {repo: str(path.resolve()) for repo, path in clones.items()}
    if named != known:
        store.write_local("clones.json", named)


def remember_servers(store: Store, github: Sequence[str], api_url: str) -> None:
    """Which server each project was mined from, for stages that need its source and have no clone."""
    known = store.read_local(SERVERS)
    named = known | dict.fromkeys(github, api_url)
    if named != known:
        store.write_local(SERVERS, named)


def shown(record: Mined) -> dict[str, Any]:
    """A record as `race mine --json` shows it."""
    fields = record.model_dump(
        mode="json", exclude={"findings", "inputs", "fix_patch", "test_patch", "members"}
    )
    return fields | {"reasons": [finding.message for finding in record.findings]}


def _day(day: date | None) -> datetime | None:
    return datetime.combine(day, clock(), UTC) if day is not None else None


def _recorded(task: TaskFolder, store: Store) -> dict[str, str]:
    record = task.read(Mined)
    return record.inputs if record is not None else {}


def _work(desk: Desk) -> Mined:
    raise UsageError(f"{desk.task.id}: mining works on histories; use `race mine` with a clone")


STAGE = Stage("mine", Mined, _recorded, _work)

_day_type = click.DateTime(formats=["%Y-%m-%d"])


def histories(
    bench: Workbench,
    clones: Sequence[Path],
    repos: Sequence[str],
    facts: Mapping[str, Mapping[int, PullRequestFacts]],
    github: Sequence[str],
    api_url: str,
    say: Callable[[str], None],
) -> tuple[list[History], dict[str, Path]]:
    """The histories that a command line names, and its clones by project."""
    if len(clones) != len(repos):
        raise UsageError("every --clone needs its --repo OWNER/NAME, in the same order")
    if not clones and not github:
        raise UsageError("say what to mine: --clone PATH --repo OWNER/NAME, or --github OWNER/NAME")
    for repo in (*repos, *github):
        if not _REPO.match(repo):
            raise UsageError(f"{repo!r} is not OWNER/NAME")
    named = dict(zip(repos, clones, strict=True))
    found: list[History] = [bench.clone(path, repo, facts.get(repo)) for repo, path in named.items()]
    found += [bench.github(repo, api_url, say) for repo in github]
    return found, named


@click.command("mine")
@release_argument
@click.option("--clone", "clones", multiple=True, type=click.Path(path_type=Path), help="A local clone.")
@click.option("--repo", "repos", multiple=True, metavar="OWNER/NAME", help="The clone's project.")
@click.option(
    "--pull-requests",
    "facts",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Pull requests that a clone does not show: JSON lines with number, merge_commit and more.",
)
@click.option("--github", multiple=True, metavar="OWNER/NAME", help="A project on GitHub.")
@click.option("--api-url", default="", help="Another server that speaks GitHub's API.")
@click.option("--since", type=_day_type, help="Merged on or after this day (UTC).")
@click.option("--until", type=_day_type, help="Merged before this day (UTC).")
@click.option("--limit", type=click.IntRange(1), help="Look at this many new pull requests at most.")
@click.option(
    "--second-opinion", "model", metavar="MODEL", help="A model for what the rules leave open."
)
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    clones: tuple[Path, ...],
    repos: tuple[str, ...],
    facts: Path | None,
    github: tuple[str, ...],
    api_url: str,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
    model: str | None,
    as_json: bool,
    verbose: int,
) -> int:
    """Find merged pull requests that fix a concurrency bug, with tests.

    Candidates become task folders of the release; what is turned down goes to rejected.jsonl with
    its reasons. A second run looks only at what is new. --pull-requests names those that a clone
    alone does not show (rebase merges, commits without a number): one JSON object a line with
    number, merge_commit, and optionally repo, base_commit, title, body, merged_at, linked_issues.

    \b
    Examples:
      race mine tasks/winter --clone ~/src/anyio --repo agronholm/anyio --since 2025-01-01
      race mine tasks/winter --clone ~/src/anyio --repo agronholm/anyio --pull-requests more.jsonl
      race mine tasks/winter --github agronholm/anyio --limit 200 --json
    """
    bench = workbench(context)
    store = Store(release)
    section = store.settings.mine
    with store.lock():
        progress = Progress("mine", len(clones) + len(github), verbose=verbose)
        known = read_facts(facts, repos) if facts is not None else {}
        sources, named = histories(bench, clones, repos, known, github, api_url, progress.say)
        remember(store, named)
        remember_servers(store, github, api_url)
        with progress.running():
            tally, wanted = mine_histories(
                store,
                sources,
                since=since.date() if since else section.since,
                until=until.date() if until else section.until,
                limit=limit,
                model=bench.model(model) if model else None,
                progress=progress,
            )
            wanted += compose(store, bench, progress, tally)
    if as_json:
        print_json(
            {
                "candidates": [shown(record) for record in wanted if record.accepted],
                "rejected": [shown(record) for record in wanted if not record.accepted],
            }
        )
    click.echo(tally.line("mine"), err=as_json)
    return 4 if tally.accidents else 0
