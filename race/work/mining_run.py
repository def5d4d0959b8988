"""One run of mining: what is new in each history is judged, and what was found is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from datetime import time as clock
from pathlib import Path

from race.core.mining.decision import RULES
from race.core.mining.facts import PullRequestFacts
from race.core.records import Mined, PullRequest, digest
from race.errors import Accident
from race.ports import History, Model
from race.progress import Progress
from race.store import Store
from race.work.composing import mine_composites
from race.work.mining import Judged, instance_id, judge
from race.work.rejected import read_rejected, write_rejected
from race.work.servers import SERVERS
from race.work.tally import Tally
from race.workbench import Workbench


def rules_digest(store: Store) -> dict[str, str]:
    """What a verdict of mining was made from, besides the history: the rules and their settings."""
    rules = store.settings.mine.model_dump(mode="json", exclude={"since", "until"})
    return {"rules": digest({"rules": RULES, "settings": rules})[:16]}


@dataclass(frozen=True)
class Order:
    """What one mining run is asked for. `facts` are those given by file, by project and number."""

    since: date | None = None
    until: date | None = None
    limit: int | None = None
    model: Model | None = None
    facts: Mapping[str, Mapping[int, PullRequestFacts]] = field(default_factory=dict)
    told: list[tuple[PullRequest, str]] | None = None
    """A list to be filled with every pull request that was listed and the text of its issues."""


def mine_histories(
    store: Store, histories: Iterable[History], order: Order, *, progress: Progress
) -> tuple[Tally, list[Mined]]:
    """Look at what is new in each history; the caller holds the release's lock.

    Returns the tally and every record that was asked for, known ones included, newest first. What
    was found before an accident is kept.
    """
    tally = Tally()
    wanted: list[Mined] = []
    for history in histories:
        try:
            wanted += _mine_one(store, history, order, progress, tally)
        except Accident as error:
            tally.leave(history.repo, error)
            progress.finished(history.repo, f"pending: {error}")
    return tally, wanted


def _mine_one(
    store: Store, history: History, order: Order, progress: Progress, tally: Tally
) -> list[Mined]:
    rules = rules_digest(store)
    rejected = read_rejected(store)
    facts = order.facts.get(history.repo, {})
    due, known, listed = [], [], {}
    for request in history.pull_requests(since=_day(order.since), until=_day(order.until)):
        listed[instance_id(request)] = request
        before = rejected.get(instance_id(request)) or store.task(instance_id(request)).read(Mined)
        if before is not None and _is_current(before, request, rules, facts.get(request.number)):
            known.append(before)
        else:
            due.append(request)
    later = due[order.limit :] if order.limit is not None else []
    due = due[: len(due) - len(later)]
    rest = f", {len(later)} more left for later by --limit" if later else ""
    progress.say(f"mine: {history.repo}: {len(due)} pull requests to look at, {len(known)} known{rest}")
    if not listed:
        progress.say(f"mine: {history.repo}: {history.when_empty}")
    found: list[Mined] = []
    outcome = ""
    try:
        voice = _voice(progress, history.repo)
        for judged in judge(history, due, store.settings.mine, voice, order.model):
            inputs = rules | words_digest(listed[judged.record.instance_id])
            record = _keep(store, judged, inputs, rejected)
            found.append(record)
            (tally.done if record.accepted else tally.rejected).append(record.instance_id)
    except Accident as error:
        left = {instance_id(request) for request in due} - {record.instance_id for record in found}
        tally.pending.extend(sorted(left))
        tally.fault(history.repo, error)
        outcome = f", {len(left)} pending: {error}"
    finally:
        write_rejected(store, rejected)
    tally.skipped.extend(record.instance_id for record in known)
    accepted = sum(record.accepted for record in found)
    outcome = f"{accepted} candidates, {len(found) - accepted} turned down{outcome}"
    progress.finished(history.repo, outcome + _cost(found))
    everything = [*known, *found]
    everything.sort(key=lambda record: (record.merged_at, record.pr), reverse=True)
    if order.told is not None:
        order.told.extend(_told(history, listed, everything))
    return everything


def words_digest(request: PullRequest) -> dict[str, str]:
    """The prose that a verdict was made from."""
    return {"words": digest([request.title, request.body])[:16]}


def _is_current(
    before: Mined, request: PullRequest, rules: dict[str, str], facts: PullRequestFacts | None
) -> bool:
    """Would judging again give the same? Not when an issue's text is given that no verdict saw."""
    if before.merge_commit != request.merge_commit or before.inputs != rules | words_digest(request):
        return False
    if before.accepted or facts is None or not facts.issue_text:
        return True
    return any(name.startswith("issue:") for name in before.signals)


def _told(
    history: History, listed: Mapping[str, PullRequest], records: Iterable[Mined]
) -> Iterator[tuple[PullRequest, str]]:
    """What the source said of each pull request; issues only where a verdict rests on them."""
    for record in records:
        request = listed[record.instance_id].model_copy(update={"linked_issues": record.linked_issues})
        used = any(name.startswith("issue:") for name in record.signals)
        yield request, history.issue_text(request) if used else ""


def _cost(records: Iterable[Mined]) -> str:
    """What a second opinion cost, for the closing line."""
    calls = [call for record in records for call in record.calls]
    if not calls:
        return ""
    tokens = sum(call.input_tokens + call.output_tokens for call in calls)
    priced = [call.cost_usd for call in calls if call.cost_usd is not None]
    cost = f", {math.fsum(priced):.4f} USD" if len(priced) == len(calls) else ", price unknown"
    return f"; {len(calls)} second opinions, {tokens} tokens{cost}"


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
) -> Tally:
    """Mine local clones (`owner/name` -> path), and remember where they are.

    The caller holds the release's lock.
    """
    histories = [bench.clone(path, repo) for repo, path in sorted(clones.items())]
    remember(store, clones)
    section = store.settings.mine
    order = Order(since=section.since, until=section.until)
    tally, _ = mine_histories(store, histories, order, progress=progress)
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


def _day(day: date | None) -> datetime | None:
    return datetime.combine(day, clock(), UTC) if day is not None else None
