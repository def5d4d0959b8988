"""The record Sealed: the two shipped images of a task and what the leak audit found in them."""

from __future__ import annotations

from typing import ClassVar

from race.core.records import Closed, FileRef, StageRecord

CONFIG = -1
"""Layer number of findings in the image's configuration, or seen in a running container."""


class LeakFinding(Closed):
    """One leak: path, layer (0 is the lowest, -1 the configuration), what it is, what it looks like."""

    path: str
    layer: int
    what: str
    excerpt: str = ""


class ProbeResult(Closed):
    """One named probe. `checked` is False when it could not run; `why` says why, and that it is
    therefore no evidence. A probe that was not checked has not passed."""

    name: str
    title: str
    group: str
    passed: bool
    checked: bool = True
    why: str = ""
    findings: tuple[LeakFinding, ...] = ()


class FragmentCounts(Closed):
    """What was looked for: distinct pieces of fix and hidden tests, and hidden test names.

    `shortest_leak_lines` is how many distinct lines of the fix are enough to be found, 0 when
    nothing in the fix differs from the base tree. `common_lines` were too common to look for.
    """

    fix: int
    tests: int
    names: int
    common_lines: int
    shortest_leak_lines: int


class ImageRecipe(Closed):
    """A shipped image by name and by the digest of everything that its build reads."""

    ref: str
    recipe: str
    workdir: str = "/repo"


class Sealed(StageRecord):
    """What ships: the agent's image and the grading image, with the probes that ran on each."""

    stage: ClassVar[str] = "seal"

    env_image: ImageRecipe | None = None
    test_image: ImageRecipe | None = None
    run_tests: str = "/soma/run_tests.sh"
    test_command: str = ""
    files: tuple[FileRef, ...] = ()
    fragments: FragmentCounts | None = None
    probes: tuple[ProbeResult, ...] = ()
    test_probes: tuple[ProbeResult, ...] = ()
    not_checked: tuple[str, ...] = ()
