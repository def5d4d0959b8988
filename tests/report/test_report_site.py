"""The site of a release: what it shows, what it must not show, and that its numbers carry intervals."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from race.cli import run
from race.core.records import Mined
from race.core.tiered import Tiered
from race.store import Store

PAGES = ("index", "tasks", "methodology", "leak-audit", "submit", "changelog")
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "rect", "circle"}


class Checker(HTMLParser):
    """Collects links, outside resources and unclosed elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "script" or tag == "link" or "src" in values:
            self.outside.append(self.get_starttag_text() or tag)
        if tag == "a":
            self.links.append(values["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "src" not in dict(attrs)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, f"</{tag}> does not match"

    def handle_data(self, data):
        self.text += data


def check(page: Path) -> Checker:
    parser = Checker()
    parser.feed(page.read_text())
    parser.close()
    assert parser.open == [], f"{page}: unclosed {parser.open}"
    return parser


def report(release: Path, output: Path, *more: str) -> None:
    assert run(["report", str(release), "--output", str(output), *more]) == 0


def test_all_pages_are_well_formed_and_need_nothing_from_elsewhere(site):
    """Six pages and one per public task; every link leads somewhere; nothing comes from outside."""
    assert {path.stem for path in site.glob("*.html")} == set(PAGES)
    assert len(list((site / "tasks").glob("*.html"))) == 10
    for path in site.rglob("*.html"):
        page = check(path)
        assert page.outside == []
        for link in page.links:
            target, _, place = link.partition("#")
            goal = (path.parent / target).resolve()
            assert goal.is_file(), f"{path}: {link}"
            assert not place or f'id="{place}"' in goal.read_text()
        assert not re.search(r"https?://", path.read_text().replace("http://www.w3.org/2000/svg", ""))


def test_private_tasks_are_counted_and_never_shown(site):
    """Nothing of a private task is in any file, and the counts include it."""
    for path in site.rglob("*"):
        if path.is_file():
            assert "hidden-9" not in path.read_text()
            assert "hidden-10" not in path.read_text()
            assert "acme/hidden" not in path.read_text()
    text = check(site / "tasks.html").text
    assert re.search(r"9\s*ship, 1 private", text)
    assert re.search(r"acme__flow-77\s*Tidy\s*changes no test", text)
    assert re.search(r"2\s*rejected by a later stage, 1 private", text)
    text = check(site / "index.html").text
    assert "9 tasks" in text
    assert "12 on tasks that are not in the list" in text


def test_hidden_tests_and_excerpts_are_not_on_any_page(site):
    """Names of hidden tests and excerpts of leaks stay in the records."""
    everything = "".join(path.read_text() for path in site.rglob("*.html"))
    assert "test_secret_name" not in everything
    assert "SECRET-EXCERPT" not in everything
    assert "/etc/leak" in (site / "leak-audit.html").read_text()


def test_texts_from_outside_are_escaped(site):
    """A title or statement with markup in it is shown as text."""
    page = (site / "tasks" / "acme__flow-2.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "Fix lost update &lt;2&gt;" in page


def test_every_page_says_what_is_sample_and_scripted(site, release, tmp_path):
    """A sample release says so on each page, and so does one with scripted agents."""
    settings = release / "release.toml"
    settings.write_text(settings.read_text().replace("sample = false", "sample = true"))
    report(release, tmp_path / "sample")
    for folder, sample in ((site, False), (tmp_path / "sample", True)):
        for path in folder.rglob("*.html"):
            text = check(path).text
            assert ("Sample." in text) is sample
            assert "Scripted." in text


def test_a_rate_never_stands_without_count_and_interval(site):
    """Each bold rate on the leaderboard is followed by its interval and its number of tasks."""
    page = (site / "index.html").read_text()
    cells = re.findall(
        r'<span class="rate"><b>[\d.]+%</b>.*?</span><span class="sub">(.*?)</span>', page
    )
    assert len(cells) >= 16
    for cell in cells:
        assert re.fullmatch(r"(\d+–\d+%|no interval.*) · \d+ tasks?( · few)?", cell)
    assert "4 tasks · few" in page


def test_without_runs_and_later_stages_pages_say_so(mined_release, tmp_path):
    """After mining alone the site is there, and says what is not known."""
    out = tmp_path / "site"
    report(mined_release, out)
    assert "No runs are recorded" in check(out / "index.html").text
    assert "No image has been audited yet" in check(out / "leak-audit.html").text
    assert "No task has been validated yet" in check(out / "methodology.html").text
    assert "Scripted." not in check(out / "index.html").text


def test_without_a_file_of_runs_the_tier_records_stand_in(release, tmp_path):
    """On another machine the leaderboard comes from the records, and says what it does not know."""
    (release / "local" / "runs.jsonl").unlink()
    report(release, tmp_path / "site")
    text = check(tmp_path / "site" / "index.html").text
    assert "scripted/half" in text
    assert re.search(r"36\s*on 9 tasks", text)
    assert "From the counts in the release's tier records" in text
    assert "SOMA scores" not in text


def test_a_task_that_became_private_loses_its_page(release, tmp_path):
    """A second report removes the pages of its first that it does not make; other files stay."""
    out = tmp_path / "site"
    report(release, out)
    (out / "own.html").write_text("mine")
    settings = release / "release.toml"
    settings.write_text(settings.read_text().replace("private = [", 'private = ["acme__flow-1", '))
    report(release, out)
    assert not (out / "tasks" / "acme__flow-1.html").exists()
    assert (out / "own.html").read_text() == "mine"
    assert "acme__flow-1<" not in (out / "tasks.html").read_text()


def test_an_edited_statement_does_not_stop_the_report(release, tmp_path):
    """The task waits for its auditor again, and its page shows no statement that nobody audited."""
    out = tmp_path / "site"
    (release / "acme__flow-1" / "statement.md").write_text("edited by hand")
    report(release, out)
    page = check(out / "tasks" / "acme__flow-1.html").text
    assert "edited by hand" not in page
    assert "What the agent reads" not in page
    assert "specify is due again" in page


@pytest.mark.engine
def test_the_built_sample_has_a_site(built_sample, tmp_path, capsys):
    """A real build: every task has a page, all pages say sample and scripted, rates have counts."""
    out = tmp_path / "site"
    report(built_sample, out, "--json")
    answer = json.loads(capsys.readouterr().out)
    folders = {path.parent.name for path in built_sample.glob("*/mine.json")}
    assert {Path(name).stem for name in answer["pages"] if name.startswith("tasks/")} == folders
    for path in out.rglob("*.html"):
        page = check(path)
        assert page.outside == []
        assert "Sample." in page.text
        assert "Scripted." in page.text
    assert "scripted/steady" in check(out / "index.html").text
    assert re.search(r"verified", check(out / "tasks" / "sample__brook-3.html").text)


def test_the_same_records_give_the_same_pages(site, whole_release, tmp_path):
    """No date, no order of a set, no seed of the moment: two reports are equal byte by byte."""
    report(whole_release, tmp_path / "again")
    pages = sorted(path.relative_to(site) for path in site.rglob("*.html"))
    assert pages
    for path in pages:
        assert (site / path).read_bytes() == (tmp_path / "again" / path).read_bytes()


def test_corrections_exclusions_and_counts_add_up(whole_release, tmp_path, capsys):
    """The closing line counts shown and private tasks; the changelog names the correction."""
    out = tmp_path / "site"
    report(whole_release, out, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["private"] == 2
    assert len(answer["pages"]) == 16
    text = check(out / "changelog.html").text
    assert "acme__flow-3" in text
    assert "an id as pytest spells it" in text
    steps = check(out / "methodology.html").text
    assert re.search(r"12 accepted \+ 1 rejected", steps)
    assert re.search(r"9 accepted \+ 2 rejected \+ 1 waiting", steps)


def test_malformed_runs_are_one_clear_line(release, tmp_path, capsys):
    """A broken line in the runs names the file and the line, exit 2, and leaves no half site."""
    (release / "local" / "runs.jsonl").write_text('{"instance_id": \n{}\n')
    assert run(["report", str(release), "--output", str(tmp_path / "site")]) == 2
    assert "runs.jsonl: line 1: not JSON" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_runs_that_were_named_must_be_there(release, tmp_path, capsys):
    """A mistyped --runs is an error, never quietly the counts of the tier records."""
    out = tmp_path / "site"
    assert run(["report", str(release), "--output", str(out), "--runs", str(tmp_path / "typo")]) == 2
    assert "typo: no such file" in capsys.readouterr().err
    assert not out.exists()


def test_a_composite_names_all_its_pull_requests(release, tmp_path):
    """A composite never was one pull request, and its page does not say so."""
    members = ("acme__flow-1", "acme__flow-3")
    last = Store(release).task(members[1]).read(Mined)
    assert last is not None
    own = {"instance_id": "acme__flow-1-3", "members": members, "merged_at": "2026-04-03T10:00:00Z"}
    Store(release).task("acme__flow-1-3").write(last.model_copy(update=own))
    report(release, tmp_path / "site")
    page = check(tmp_path / "site" / "tasks" / "acme__flow-1-3.html")
    assert re.search(r"pull requests\s*#1, #3, the last merged 2026-04-03", page.text)
    assert [f"{member}.html" in page.links for member in members] == [True, True]
    alone = check(tmp_path / "site" / "tasks" / "acme__flow-1.html").text
    assert re.search(r"pull request\s*#1, merged", alone)


def test_tasks_that_no_row_of_a_table_holds_are_counted(release, tmp_path):
    """Rates by complexity say how many tasks that were run have none."""
    task = Store(release).task("acme__flow-2")
    record = task.read(Tiered)
    assert record is not None
    task.write(record.model_copy(update={"tier": "hard", "complexity": None}))
    record = Store(release).task("acme__flow-4").read(Tiered)
    assert record is not None
    Store(release).task("acme__flow-4").write(record.model_copy(update={"complexity": "long"}))
    report(release, tmp_path / "site")
    text = " ".join(check(tmp_path / "site" / "index.html").text.split())
    assert "1 task that was run has no complexity and is in no part of this table" in text


def test_a_file_in_place_of_the_folder_is_said(release, tmp_path, capsys):
    """An --output that cannot be a folder is one line that names the path."""
    (tmp_path / "file").write_text("")
    assert run(["report", str(release), "--output", str(tmp_path / "file" / "site")]) == 4
    assert "cannot write: Not a directory" in capsys.readouterr().err


def test_turned_down_for_a_rare_reason_is_named_first(release, tmp_path):
    """Where many are turned down for one reason, the others are not lost behind them."""
    rows = []
    for number in range(100, 500):
        rule = "no-tests" if number == 499 else "no-product-code"
        finding = {"rule": rule, "message": f"because of {rule}", "severity": "error"}
        name = f"acme__flow-{number}"
        rows.append({"instance_id": name, "pr": number, "title": "T", "findings": [finding]})
    (release / "rejected.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report(release, tmp_path / "site")
    text = check(tmp_path / "site" / "tasks.html").text
    assert text.index("acme__flow-499") < text.index("acme__flow-100")
    assert "100 more are in the release's rejected.jsonl" in text
