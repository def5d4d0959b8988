"""Everything that can be set, read once at the edge: release.toml, race.toml and the environment."""

from __future__ import annotations

import json
import math
import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from race.core.records import Closed, digest
from race.errors import Malformed, Missing

PERMISSIVE = (
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0",
    "Python-2.0", "Unlicense", "Zlib",
)  # fmt: skip


class ReleaseSection(Closed):
    """What the release is. `sample` marks every page and record made from it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,40}$")
    version: str = "0"
    canary: str = Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
    sample: bool = False
    repository: str = ""
    """The image repository; `race-<name>` when empty."""
    private: tuple[str, ...] = ()
    minimum_count: int = 5
    """A rate from fewer tasks than this is shown with a remark."""


class MineSection(Closed):
    """Which pull requests become candidates."""

    licences: tuple[str, ...] = PERMISSIVE
    threshold: float = 0.45
    since: date | None = None
    until: date | None = None
    max_fix_lines: int = 2000


class ReliabilitySection(Closed):
    """How sure the release wants to be that a task discriminates; rates are upper 95% bounds."""

    limit: float = 0.05
    repeats: int = 59
    seed: int = 20260101
    perturb: bool = True
    perturbed: int = 1
    """Runs each way under each perturbation."""
    hang_seconds: float = 5
    """Least limit per test in repeats without the fix; more where tests take long to end."""
    most_ids: int = 60
    """Fail-to-pass tests that are repeated; of more, an even sample."""

    @model_validator(mode="after")
    def _can_be_met(self) -> ReliabilitySection:
        """So few repeats that even a perfect series cannot reach the limit would drop every task."""
        if not 0 < self.limit < 1:
            raise ValueError(f"limit {self.limit:g} is no rate between 0 and 1")
        needed = math.ceil(math.log(0.05) / math.log1p(-self.limit) - 1e-9)
        if self.repeats < needed:
            raise ValueError(f"a limit of {self.limit:g} needs at least {needed} repeats")
        return self


class ValidateSection(Closed):
    """How the matrix runs. Seconds are wall time; the suite is widened while it fits its budget."""

    runs: int = 3
    test_seconds: float = 60
    run_seconds: float = 600
    suite_seconds: float = 60
    memory_mb: int = 2048
    cpus: float = 1.0
    pids: int = 512
    output_mb: int = 16
    reliability: ReliabilitySection = ReliabilitySection()


class SpecifySection(Closed):
    """Who writes the statement: a model by its litellm name, or nobody (the deterministic writer)."""

    model: str = ""
    auditor_model: str = ""
    rounds: int = 3


class SealSection(Closed):
    """What the leak audit looks at besides the default."""

    live_network: bool = True


class TierSection(Closed):
    """Calibration: which agents, how many attempts, and the fixed cut points of complexity.

    `short_steps` and `medium_steps` are upper bounds on the mean steps of resolved attempts.
    """

    agents: tuple[str, ...] = ()
    attempts: int = 3
    max_steps: int = 100
    command_seconds: float = 600
    run_seconds: float = 7200
    short_steps: float = 15
    medium_steps: float = 40


class VerifySection(Closed):
    """The release check."""

    gold: int = Field(default=3, ge=1)
    empty: int = Field(default=3, ge=1)
    repeats: int = Field(default=20, ge=0)
    """Runs of the fail-to-pass tests alone, each way, on the image that ships; 0 for none."""


class ReportSection(Closed):
    """What the site says besides what was measured.

    `cut` is the first day of the newer era; `cutoffs` gives models their own training cut-off;
    `baseline` is the agent that SOMA scores compare with (no scores without one).
    """

    cut: date = date(2026, 1, 1)
    cutoffs: dict[str, date] = Field(default_factory=dict)
    baseline: str = ""
    burn_ratio: float = Field(default=0.0, ge=0, le=1)
    contact: str = ""


class ProjectSection(Closed):
    """What no rule finds out about one project; every use is shown in the record."""

    python: str = ""
    system_packages: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    deselect: tuple[str, ...] = ()


class CompositeSection(Closed):
    """Several fixes to one project as one task; members are instance ids, oldest first."""

    id: str
    members: tuple[str, ...] = Field(min_length=2)


class ReleaseSettings(Closed):
    """release.toml, whole. A stage reads one section; `slice_digest` is that section's digest."""

    release: ReleaseSection
    mine: MineSection = MineSection()
    validate_: ValidateSection = Field(default=ValidateSection(), alias="validate")
    specify: SpecifySection = SpecifySection()
    seal: SealSection = SealSection()
    tier: TierSection = TierSection()
    verify: VerifySection = VerifySection()
    report: ReportSection = ReportSection()
    projects: dict[str, ProjectSection] = Field(default_factory=dict)
    composite: tuple[CompositeSection, ...] = ()

    def slice_digest(self, *sections: str) -> str:
        """Digest of the named sections, for a record's inputs."""
        whole = self.model_dump(mode="json", by_alias=True)
        return digest({name: whole[name] for name in sections})

    @property
    def repository(self) -> str:
        """The image repository that this release's images are named under."""
        return self.release.repository or f"race-{self.release.name}"


ByDigest = Annotated[str, Field(pattern=r"^[^@\s]+@sha256:[0-9a-f]{64}$")]


class Workspace(Closed):
    """This machine: race.toml (optional) and the environment, never part of a record."""

    ca_bundle: str = ""
    """PEM file for TLS inside builder stages and for the resolver; never in a task image."""
    index_url: str = ""
    docker_host: str = ""
    cache: str = ""
    clones: dict[str, str] = Field(default_factory=dict)
    registry_pull: bool = True
    """Whether base images may come from a registry; without one they are made from Debian's packages."""
    registry: str = ""
    """Where a mirror keeps the official images, put before their names (`mirror.example/library`)."""
    base_images: dict[str, ByDigest] = Field(default_factory=dict)
    """Other images to make base images from: Python version -> reference with digest."""

    @property
    def cache_dir(self) -> Path:
        """Where downloads and audits of image layers are kept between commands."""
        return Path(self.cache or "~/.cache/race").expanduser()


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        raise Malformed(path, f"byte {error.start}", "not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise Malformed(path, "", str(error)) from error


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Place and text of the first thing that pydantic disliked."""
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    return place, problem["msg"]


def file_bytes(path: Path) -> bytes:
    """A file's bytes. Raises FileNotFoundError without one, Malformed for a folder, a device or what
    cannot be read. A named pipe is not opened: nobody may ever write into it."""
    if not path.is_file() and (path.exists() or path.is_symlink()):
        raise Malformed(path, "", "is no file")
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise Malformed(path, "", f"cannot be read: {error.strerror}") from error


def json_object(path: Path, text: bytes, place: str = "") -> dict[str, Any]:
    """A JSON object. Malformed names the file, and the place in it, for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = "too deep" if isinstance(error, RecursionError) else error
        raise Malformed(path, place, f"not JSON: {said}") from error
    if not isinstance(value, dict):
        raise Malformed(path, place, "not an object")
    if b"\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise Malformed(path, place, "holds a half of a character (a lone surrogate)") from error
    return value


def read_release(folder: Path) -> ReleaseSettings:
    """release.toml of a release folder. Raises Missing without one, Malformed with the place."""
    path = folder / "release.toml"
    try:
        text = file_bytes(path)
    except FileNotFoundError as error:
        raise Missing(
            f"{folder} is no release folder: no release.toml; `race init` makes one"
        ) from error
    except NotADirectoryError as error:
        raise Missing(f"{folder} is no folder") from error
    try:
        return ReleaseSettings.model_validate(_parse(path, text))
    except ValidationError as error:
        raise Malformed(path, *first_problem(error)) from error


def read_workspace(start: Path, environment: dict[str, str]) -> Workspace:
    """race.toml of `start` or the nearest folder above it, then RACE_* variables on top.

    The CA bundle falls back to what pip, requests and OpenSSL are told, in that order.
    """
    values: dict[str, Any] = {}
    for folder in (start, *start.parents):
        path = folder / "race.toml"
        if path.is_file():
            values = _parse(path, path.read_bytes())
            break
    for name in ("ca_bundle", "index_url", "docker_host", "cache", "registry"):
        given = environment.get(f"RACE_{name.upper()}")
        if given:
            values[name] = given
    if not values.get("ca_bundle"):
        for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            if environment.get(name):
                values["ca_bundle"] = environment[name]
                break
    if not values.get("docker_host") and environment.get("DOCKER_HOST"):
        values["docker_host"] = environment["DOCKER_HOST"]
    try:
        return Workspace.model_validate(values)
    except ValidationError as error:
        raise Malformed("race.toml", *first_problem(error)) from error
