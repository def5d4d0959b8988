"""What a record says about an environment: everything that its image is made from, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from race.core.failure_text import normalise
from race.core.records import Closed, FileRef


class Rung(Closed):
    """A step down the ladder: what had to be given up or added, and what forced it."""

    name: str
    what: str
    why: str


def reason(text: str) -> str:
    """The last line of a log that names an error, as it would read on every machine; 300 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("The command '")]
    errors = [line for line in lines if "Error" in line or "ERROR:" in line or "error:" in line]
    line = errors[-1] if errors else (lines[-1] if lines else "")
    return normalise(line, 300)


class PytestSettings(Closed):
    """How the project runs pytest: where it says so, its options, and what they need."""

    file: str = ""
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    minimum: str = ""


class Environment(Closed):
    """One task's environment. Two builds from it have the same content.

    `python` is what it runs on, `python_wanted` what the project would have chosen and why. Locks
    hold one wheel per package; `requirements` and `build_requirements` are what they were made from,
    `sources` where those were found. `project` and `version` are what the installed metadata says;
    `install` is how the tree becomes importable. `environment` is set for every process of a task.
    `rungs` are the steps of the ladder, in order; `overrides` what release.toml said.
    """

    python: str
    python_wanted: str
    cutoff: str
    project: str = ""
    version: str = ""
    backend: str = ""
    install: Literal["editable", "path", "none"]
    requirements: tuple[str, ...]
    requirements_lock: FileRef
    build_requirements: tuple[str, ...] = ()
    build_lock: FileRef
    sources: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    build_environment: dict[str, str] = Field(default_factory=dict)
    system_packages: tuple[str, ...] = ()
    pytest: PytestSettings = PytestSettings()
    deselect: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    rungs: tuple[Rung, ...] = ()
    overrides: tuple[str, ...] = ()
    dockerfile: FileRef
    recipe: str
    """SHA-256 over all that decides the image's content; the image carries it as race.recipe."""
