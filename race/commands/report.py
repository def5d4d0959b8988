"""`race report`: the static site of a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from race import __version__
from race.core.records import canonical
from race.core.site.audit_document import audit_document
from race.core.site.evidence import audit_page, changelog_page, methodology_page
from race.core.site.standings import Results, leaderboard_page
from race.core.site.task_pages import task_page, tasks_page
from race.core.site.view import ReleaseView
from race.options import json_option, print_json, release_argument, verbose_option, workbench
from race.render import render
from race.store import Store, write_atomic
from race.work.release_view import release_results, view_release

MADE = ".race-site.json"
"""List of the files that the last report wrote, so that a task that became private loses its page."""

AUDIT = "leak-audit.json"

HELP = """Write the static site of a release: leaderboard, tasks, methodology, leak audit, changelog.

Pages need nothing from elsewhere and read well in light and dark. Private tasks are counted, not shown.
The leak audit also comes as leak-audit.json, for programs.
Runs come from the release's local/runs.jsonl unless --runs names a file. Pages say what is a sample and
what is scripted. Without runs, or before later stages, pages say what is not known yet.

\b
Examples:
  race report tasks/sample
  race report tasks/sample --output public --runs all-runs.parquet
"""


@click.command("report", help=HELP)
@release_argument
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder; reports/output/<release> without."
)
@click.option("--runs", "runs_file", type=click.Path(path_type=Path), help="Recorded runs.")
@json_option
@verbose_option
@click.pass_context
def command(
    context: click.Context,
    release: Path,
    output: Path | None,
    runs_file: Path | None,
    as_json: bool,
    verbose: int,
) -> int:
    bench = workbench(context)
    store = Store(release)
    view = view_release(store)
    runs = runs_file or store.folder / "local" / "runs.jsonl"
    results = release_results(view, runs, bench, named=runs_file is not None)
    folder = output or Path("reports") / "output" / view.name
    pages = _pages(view, results)
    documents = {AUDIT: canonical(audit_document(view, f"race {__version__}")).decode()}
    _write(folder, pages | documents)
    for name in sorted(pages | documents) if verbose else []:
        click.echo(f"wrote {folder / name}", err=True)
    shown = sum(1 for name in pages if name.startswith("tasks/"))
    hidden = len(view.tasks) - shown
    if as_json:
        answer = {"output": str(folder), "pages": sorted(pages), "documents": sorted(documents)}
        print_json(answer | {"private": hidden})
    click.echo(
        f"report: {len(pages)} pages in {folder / 'index.html'}; {shown} tasks shown + {hidden} private "
        f"= {len(view.tasks)}",
        err=as_json,
    )
    return 0


def _pages(view: ReleaseView, results: Results | None) -> dict[str, str]:
    tiered = [task.tiered for task in view.tasks if task.tiered is not None]
    scripted = any(record.scripted for record in tiered) or (results is not None and results.scripted)
    shared: dict[str, Any] = {"release": view, "version": __version__, "scripted": scripted}

    def page(template: str, *, root: str = "", **values: Any) -> str:
        return render("reports", template, **shared, root=root, here=template, **values)

    pages = {
        "index.html": page("index.html", **leaderboard_page(view, results)),
        "tasks.html": page("tasks.html", **tasks_page(view, results)),
        "methodology.html": page("methodology.html", **methodology_page(view, results)),
        "leak-audit.html": page("leak-audit.html", **audit_page(view)),
        "submit.html": page("submit.html"),
        "changelog.html": page("changelog.html", **changelog_page(view)),
    }
    for task in view.tasks:
        if not task.private:
            values = task_page(view, task, results)
            pages[f"tasks/{task.id}.html"] = page("task.html", root="../", **values)
    return pages


def _write(folder: Path, pages: dict[str, str]) -> None:
    """Write all pages; remove those of an earlier report that are none of this one's."""
    made = folder / MADE
    try:
        earlier = json.loads(made.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        earlier = []
    for name, text in pages.items():
        write_atomic(folder / name, text.encode())
    for name in earlier if isinstance(earlier, list) else []:
        inside = isinstance(name, str) and ".." not in Path(name).parts and not Path(name).is_absolute()
        if inside and name not in pages:
            (folder / name).unlink(missing_ok=True)
    write_atomic(made, json.dumps(sorted(pages), indent=2).encode() + b"\n")
