"""Builds a task's two images from its release folder, checks their contract, and audits both."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from race.core.leaks.fragments import Wanted, wanted_from
from race.core.leaks.patchtext import read_patch
from race.core.records import Finding, Mined
from race.core.sealed import ImageRecipe, ProbeResult
from race.core.validated import Validated
from race.errors import Accident, EngineDown, Malformed
from race.ports import ContainerSpec, Engine, Image
from race.store import Store, TaskFolder
from race.work.environments import env_ref, rebuild_env
from race.work.leak_scan import Audit, AuditRequest, audit_image
from race.work.observing import CAPABILITIES
from race.work.source import read_source
from race.work.test_image import ROOT, TestImage, build_test, release_secret
from race.workbench import Workbench

PROGRAMS = ("sh", "sleep", "git", "patch", "python3")
"""What an agent's image and a SOMA validator's steps need inside the image."""

GRADER_FOLDERS = ("/soma/",)
Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Materials:
    """What a task's images are made from: records and files of the release folder, nothing else."""

    task: TaskFolder
    store: Store
    mined: Mined
    validated: Validated
    fix: bytes
    tests: bytes
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    built_recipe: str = ""
    """The agent's image as it was really built; empty before that."""

    @cached_property
    def source(self) -> bytes:
        """The tar of the tree at the base commit."""
        if self.validated.source is None:
            raise Malformed(self.task.path / "validate.json", "source", "names no archive")
        return read_source(self.task, self.validated.source)

    @cached_property
    def wanted(self) -> Wanted:
        """What a leak audit looks for, measured against the base tree."""
        return wanted_from(
            read_patch(self.fix, "fix patch"),
            read_patch(self.tests, "test patch"),
            _files(self.source),
            (self.mined.base_commit, self.mined.merge_commit),
        )

    @property
    def env_name(self) -> str:
        """The shipped name of the agent's image."""
        return env_ref(self.store, self.task.id)

    @property
    def test_name(self) -> str:
        """The shipped name of the grading image."""
        return f"{self.store.settings.repository}:{self.task.id}.test"

    @property
    def env_recipe(self) -> str:
        """The digest of everything that the agent's image is made from: as built, else as validated."""
        return self.built_recipe or self.validated_recipe

    @property
    def validated_recipe(self) -> str:
        """The recipe of the environment that was validated."""
        return _must(self.validated.environment, self.task, "environment").recipe

    @property
    def test_image(self) -> TestImage:
        """Everything that the grading image is made from."""
        environment = _must(self.validated.environment, self.task, "environment")
        settings = self.store.settings.validate_
        deselected = [word for pattern in environment.deselect for word in ("--deselect", pattern)]
        return TestImage(
            instance_id=self.task.id,
            env_image=self.env_name,
            env_recipe=self.env_recipe,
            fail_to_pass=self.fail_to_pass,
            pass_to_pass=self.pass_to_pass,
            test_patch=self.tests,
            fix_patch=self.fix,
            canary=self.store.settings.release.canary,
            environment=environment.environment,
            arguments=deselected,
            test_seconds=settings.test_seconds,
            run_seconds=settings.run_seconds,
        )

    @property
    def recipes(self) -> tuple[ImageRecipe, ImageRecipe]:
        """Both images by name and recipe."""
        return (
            ImageRecipe(ref=self.env_name, recipe=self.env_recipe, workdir=ROOT),
            ImageRecipe(ref=self.test_name, recipe=self.test_image.recipe(), workdir=ROOT),
        )


def materials(task: TaskFolder, store: Store) -> Materials:
    """Read what a task's images are made from. Malformed when a record or file is not as recorded."""
    mined, validated = task.read(Mined), task.read(Validated)
    if mined is None or mined.fix_patch is None or mined.test_patch is None:
        raise Malformed(task.path / "mine.json", "", "an accepted task without its patches")
    if validated is None or validated.environment is None:
        raise Malformed(task.path / "validate.json", "environment", "an accepted task without one")
    return Materials(
        task,
        store,
        mined,
        validated,
        task.read_file(mined.fix_patch),
        task.read_file(mined.test_patch),
        validated.fail_to_pass,
        validated.pass_to_pass,
    )


def _must(value: T | None, task: TaskFolder, field: str) -> T:
    if value is None:
        raise Malformed(task.path / "validate.json", field, "is not there")
    return value


def _files(tar: bytes) -> Iterator[bytes]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is not None:
                yield stream.read()


def build_images(
    bench: Workbench, made: Materials, say: Say, *, fresh: bool = False
) -> tuple[Materials, Image, Image]:
    """The agent's image and the grading image under their shipped names, and what they are made from.

    With `fresh` both are built under names of their own, the agent's without any layer of an earlier
    one, and take the shipped names when they are done.
    """
    environment = _must(made.validated.environment, made.task, "environment")
    engine, env_scratch, test_scratch = bench.engine, f"{made.env_name}-check", f"{made.test_name}-check"
    if fresh:
        say("rebuilding the environment from the release folder")
        env = rebuild_env(
            bench, made.store, made.task, environment, made.source, tag=env_scratch, fresh=True, say=say
        )
        engine.tag(env.id, made.env_name)
        engine.remove_image(env_scratch)
        engine.remove_image(test_scratch)
    else:
        env = rebuild_env(bench, made.store, made.task, environment, made.source, say=say)
    made = replace(made, built_recipe=env.labels.get("race.recipe", ""))
    say("building the grading image")
    labels = {"race.release": made.store.settings.release.name}
    name = test_scratch if fresh else made.test_name
    test = build_test(engine, made.test_image, name, release_secret(made.store), labels)
    if fresh:
        engine.tag(test.id, made.test_name)
        engine.remove_image(test_scratch)
    return made, env, test


def recipe_findings(made: Materials) -> list[Finding]:
    """A note when today's templates build another environment than the one that was validated."""
    if made.env_recipe == made.validated_recipe:
        return []
    message = (
        "the environment was validated with other templates than it is built with now; "
        f"`race validate {made.store.folder} {made.task.id} --force` repeats the proof"
    )
    return [Finding(rule="other-recipe", message=message, severity="warning")]


def contract(engine: Engine, image: Image, workdir: str = ROOT) -> list[Finding]:
    """What an image lacks that an agent or a validator needs: programs, and a git work tree."""
    spec = ContainerSpec(image=image.id, workdir=workdir, capabilities=CAPABILITIES, lifetime=120)
    asked = "; ".join(f"command -v {name} >/dev/null || echo lacks {name}" for name in PROGRAMS)
    tree = "git -c safe.directory='*' rev-parse --verify -q HEAD >/dev/null || echo lacks-head"
    try:
        with engine.container(spec) as container:
            result = container.run(
                ["sh", "-c", f"{asked}; {tree}; test -w . || echo lacks-write"], timeout=60
            )
    except EngineDown:
        raise
    except Accident as error:
        message = f"no container with a shell starts from the image: {error}"
        return [Finding(rule="image-lacks-program", message=message, place="sh")]
    lines = result.output.decode(errors="replace").split("\n")
    findings = [
        Finding(rule="image-lacks-program", message=f"the image has no {line[6:]}", place=line[6:])
        for line in lines
        if line.startswith("lacks ")
    ]
    if "lacks-head" in lines:
        findings.append(Finding(rule="image-lacks-head", message=f"{workdir} has no commit in HEAD"))
    if "lacks-write" in lines:
        findings.append(Finding(rule="image-read-only", message=f"{workdir} cannot be written in"))
    return findings


def audit_env(bench: Workbench, made: Materials, image: Image, say: Say) -> Audit:
    """The leak audit of the agent's image, with the live probes of a running container."""
    numbers = {str(made.mined.pr)} | {
        digits for issue in made.mined.linked_issues if (digits := _digits(issue))
    }
    return audit_image(
        bench.engine,
        AuditRequest(
            image=image.id,
            wanted=made.wanted,
            workdir=ROOT,
            cache=bench.workspace.cache_dir,
            live=made.store.settings.seal.live_network,
            commits=(made.mined.base_commit, made.mined.merge_commit),
            numbers=sorted(numbers - {"0"}),
            say=say,
        ),
    )


def audit_test(bench: Workbench, made: Materials, image: Image, say: Say) -> Audit:
    """The leak audit of the grading image: hidden tests belong there, the fix does not."""
    return audit_image(
        bench.engine,
        AuditRequest(
            image=image.id,
            wanted=made.wanted,
            workdir=ROOT,
            cache=bench.workspace.cache_dir,
            live=False,
            allowed=GRADER_FOLDERS,
            hidden_tests_belong=True,
            say=say,
        ),
    )


def _digits(issue: str) -> str:
    return issue.rstrip("/").rsplit("/", 1)[-1].rsplit("#", 1)[-1].strip()


def leak_findings(probes: Sequence[ProbeResult], which: str, *, live: bool) -> list[Finding]:
    """Probes that found something, or that had to run and could not, as the record's findings."""
    findings = []
    for probe in probes:
        if probe.findings:
            first = probe.findings[0]
            more = f", and {len(probe.findings) - 1} more" if len(probe.findings) > 1 else ""
            message = f"{which}: {first.what} in {first.path}{more}"
            findings.append(Finding(rule=f"leak-{probe.name}", message=message, place=first.path))
        elif not probe.checked and live and probe.name.startswith("live-"):
            message = f"{which}: {probe.name} could not be checked: {probe.why}"
            findings.append(Finding(rule="leak-unchecked", message=message))
    return findings
