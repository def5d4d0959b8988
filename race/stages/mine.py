"""`race mine`: find merged pull requests that fix a concurrency bug, with tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from race.core.mining.facts import PullRequestFacts
from race.core.records import Mined
from race.errors import UsageError
from race.options import json_option, print_json, release_argument, verbose_option, workbench
from race.ports import History
from race.progress import Progress
from race.settings import MineSection
from race.store import Store, TaskFolder
from race.work.mining_run import (
    Order,
    compose,
    mine_histories,
    remember,
    remember_servers,
)
from race.work.pull_request_facts import read_facts, write_facts
from race.work.stage import Desk, Stage
from race.workbench import Workbench

_REPO = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9_.][\w.-]*$")


def shown(record: Mined) -> dict[str, Any]:
    """A record as `race mine --json` shows it."""
    fields = record.model_dump(
        mode="json", exclude={"findings", "inputs", "fix_patch", "test_patch", "members", "told"}
    )
    return fields | {"reasons": [finding.message for finding in record.findings]}


def _recorded(task: TaskFolder, store: Store) -> dict[str, str]:
    record = task.read(Mined)
    return record.inputs if record is not None else {}


def _work(desk: Desk) -> Mined:
    raise UsageError(f"{desk.task.id}: mining works on histories; use `race mine` with a clone")


STAGE = Stage("mine", Mined, _recorded, _work)

_day_type = click.DateTime(formats=["%Y-%m-%d"])


@dataclass(frozen=True)
class Sources:
    """The histories that a command line names. Raises UsageError when they do not fit together."""

    clones: tuple[Path, ...]
    repos: tuple[str, ...]
    github: tuple[str, ...]
    api_url: str
    searches: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.clones) != len(self.repos):
            raise UsageError("every --clone needs its --repo OWNER/NAME, in the same order")
        if not self.clones and not self.github:
            raise UsageError("say what to mine: --clone PATH --repo OWNER/NAME, or --github OWNER/NAME")
        if self.searches and not self.github:
            raise UsageError("--search asks GitHub; it needs --github OWNER/NAME")
        for repo in (*self.repos, *self.github):
            if not _REPO.match(repo):
                raise UsageError(f"{repo!r} is not OWNER/NAME")

    @property
    def named(self) -> dict[str, Path]:
        """The clones by project."""
        return dict(zip(self.repos, self.clones, strict=True))

    def histories(
        self,
        bench: Workbench,
        facts: Mapping[str, Mapping[int, PullRequestFacts]],
        say: Callable[[str], None],
    ) -> list[History]:
        """Clones first, then projects on GitHub."""
        found = [bench.clone(path, repo, facts.get(repo)) for repo, path in self.named.items()]
        return found + [bench.github(repo, self.api_url, say, self.searches) for repo in self.github]


def _window(since: datetime | None, until: datetime | None, section: MineSection) -> dict[str, Any]:
    """The days to look at: those of the command line, else those of release.toml."""
    first = since.date() if since else section.since
    end = until.date() if until else section.until
    if first is not None and end is not None and first >= end:
        raise UsageError(f"no day is left between --since {first} and --until {end} (not included)")
    return {"since": first, "until": end}


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
@click.option("--api-url", metavar="URL", default="", help="Another server that speaks GitHub's API.")
@click.option(
    "--search",
    "searches",
    multiple=True,
    metavar="QUERY",
    help="Only what GitHub's search finds, in its own language; 'words' asks for those of the matter.",
)
@click.option(
    "--save-pull-requests",
    "save",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write what the source told, for --pull-requests of a later run over a clone.",
)
@click.option("--since", type=_day_type, metavar="YYYY-MM-DD", help="Merged on or after this day (UTC).")
@click.option("--until", type=_day_type, metavar="YYYY-MM-DD", help="Merged before this day (UTC).")
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
    searches: tuple[str, ...],
    save: Path | None,
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
    number, merge_commit, and optionally repo, base_commit, title, body, merged_at, linked_issues,
    issue_text. A run over GitHub writes such a file with --save-pull-requests; a clone mined with it
    gives the same candidates. Without it a clone lacks the words of a pull request's own page and of
    its issues; these only ever speak for a candidate (in a record: `issue:` signals).

    \b
    Examples:
      race mine tasks/winter --clone ~/src/anyio --repo agronholm/anyio --since 2025-01-01
      race mine tasks/winter --clone ~/src/anyio --repo agronholm/anyio --pull-requests more.jsonl
      race mine tasks/winter --github agronholm/anyio --limit 200 --json
      race mine tasks/winter --github agronholm/anyio --search "deadlock in:title" --search words
    """
    bench = workbench(context)
    store = Store(release)
    window = _window(since, until, store.settings.mine)
    sources = Sources(clones, repos, github, api_url, searches)
    with store.lock():
        progress = Progress("mine", len(clones) + len(github), verbose=verbose)
        known = read_facts(facts, repos) if facts is not None else {}
        histories = sources.histories(bench, known, progress.say)
        remember(store, sources.named)
        remember_servers(store, github, api_url)
        order = Order(
            **window,
            limit=limit,
            model=bench.model(model) if model else None,
            facts=known,
            told=[] if save is not None else None,
        )
        with progress.running():
            tally, wanted = mine_histories(store, histories, order, progress=progress)
            wanted += compose(store, bench, progress, tally)
        if save is not None:
            write_facts(save, order.told or [])
    if as_json:
        print_json(
            {
                "candidates": [shown(record) for record in wanted if record.accepted],
                "rejected": [shown(record) for record in wanted if not record.accepted],
            }
        )
    click.echo(tally.line("mine"), err=as_json)
    return tally.exit_code
