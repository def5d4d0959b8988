"""The command line: help, exit codes, and the one error boundary."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import click
import pytest
from pydantic_core import to_jsonable_python as jsonable

from race import cli
from race.errors import Accident, CheckFailed, Missing, UsageError
from race.settings import CompositeSection, ProjectSection, read_release


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help_with_two_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`race X --help` exits 0 and shows at least two examples."""
    assert cli.run([name, "--help"]) == 0
    examples = capsys.readouterr().out.partition("Examples:")[2]
    lines = [line for line in examples.splitlines() if line.strip().startswith("race ")]
    assert len(lines) >= 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("bad option"), 2),
        (CheckFailed("blocked"), 1),
        (Missing("no engine"), 3),
        (Accident("disk"), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind of error ends with the documented code and at most one line."""

    @click.command("init")
    def command() -> None:
        raise error

    monkeypatch.setattr(importlib.import_module("race.commands.init"), "command", command)
    assert cli.run(["init"]) == code
    assert len(capsys.readouterr().err.splitlines()) <= 1


def test_a_bug_leaves_its_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unexpected exception is exit 70 and one line that names the log, not a traceback."""

    @click.command("init")
    def command() -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(importlib.import_module("race.commands.init"), "command", command)
    assert cli.run(["init"]) == 70
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    log = Path(line.split()[-1])
    assert "deep inside" in log.read_text()
    log.unlink()


@pytest.mark.parametrize("arguments", [["frobnicate"], ["status"], ["status", "R", "--no-such-option"]])
def test_wrong_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line says what is wrong and exits 2."""
    assert cli.run(arguments) == 2
    assert capsys.readouterr().err


def test_help_shows_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`race --help` is the list of all commands, by what one wants to do."""
    assert sorted(name for names in cli.SECTIONS.values() for name in names) == sorted(cli.COMMANDS)
    assert cli.run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, (_, line) in cli.COMMANDS.items():
        assert len(re.findall(rf"^  {name} +{line[:20]}", shown, re.MULTILINE)) == 1


def test_a_mistyped_command_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown command names the one that was probably meant, when there is one."""
    assert cli.run(["bild", "tasks/sample"]) == 2
    assert "no command 'bild'; did you mean build?" in capsys.readouterr().err
    assert cli.run(["frobnicate"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_what_a_missing_option_may_be_is_said_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """After the usage comes one line, choices included."""
    assert cli.run(["export", "tasks/sample"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("Choose from: soma, swebench, harbor")


def test_race_alone_shows_its_help_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help is shown, on standard error, with exit code 2."""
    assert cli.run([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("Usage:") == 1
    assert "verify" in shown.err


def test_init_makes_a_release_that_reads_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`race init` writes a release.toml that every command accepts, and never overwrites one."""
    folder = tmp_path / "winter"
    assert cli.run(["init", str(folder)]) == 0
    assert cli.run(["status", str(folder)]) == 0
    before = (folder / "release.toml").read_text()
    assert cli.run(["init", str(folder)]) == 2
    assert (folder / "release.toml").read_text() == before
    assert "there already" in capsys.readouterr().err


def test_init_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    """What a new release.toml shows, with the comment signs taken away, is what holds without it."""
    folder = tmp_path / "winter"
    assert cli.run(["init", str(folder)]) == 0
    text = (folder / "release.toml").read_text()
    shown = tomllib.loads(re.sub(r'^# (?=\w+ = |\[|\]|  "|")', "", text, flags=re.MULTILINE))
    holds = read_release(folder).model_dump(by_alias=True)
    assert shown.pop("projects")["owner/name"].keys() == ProjectSection.model_fields.keys()
    assert shown.pop("composite")[0].keys() == CompositeSection.model_fields.keys()
    assert shown.pop("report") | {"cutoffs": {}} == holds.pop("report")
    shown["release"] |= {"sample": False, "repository": ""}
    shown["mine"] |= {"since": None, "until": None, "licences": tuple(shown["mine"]["licences"])}
    assert jsonable(shown) == jsonable({name: holds[name] for name in shown})
    assert holds.keys() - shown.keys() == {"projects", "composite"}


def test_a_release_folder_that_is_none_exits_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any command on a folder without release.toml says how to make one."""
    assert cli.run(["status", str(tmp_path)]) == 3
    assert "race init" in capsys.readouterr().err
