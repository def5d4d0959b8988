"""Reads a release's tasks as an exporter needs them, and says of each left out why it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from race.core.export.facts import TaskFacts
from race.core.records import FileRef, Mined, StageRecord
from race.core.sealed import Sealed
from race.core.specified import Specified
from race.core.tiered import Tiered
from race.core.validated import Validated
from race.core.verified import Verified
from race.errors import Malformed
from race.store import Store, TaskFolder

R = TypeVar("R", bound=StageRecord)


@dataclass
class Exportable:
    """The tasks that ship, and the others by id with the reason. Private ones are only counted."""

    tasks: list[TaskFacts] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    private: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """All tasks of the release: exported, left out and private together."""
        return len(self.tasks) + len(self.left_out) + len(self.private)


def exportable(store: Store, *, unverified: bool = False, private: bool = False) -> Exportable:
    """The tasks of a release that may be exported.

    A task ships when the release check accepted it. With `unverified`, sealed tasks that were not
    checked yet go along; with `private`, the private ones. Raises Malformed for a changed file.
    """
    found = Exportable()
    secret = set(store.settings.release.private)
    for instance_id in store.ids():
        task = store.task(instance_id)
        if instance_id in secret and not private:
            found.private.append(instance_id)
            continue
        why = _left_out(task, unverified=unverified)
        if why:
            found.left_out[instance_id] = why
        else:
            found.tasks.append(task_facts(task, store))
    return found


def _left_out(task: TaskFolder, *, unverified: bool) -> str:
    for record in (Mined, Validated, Specified, Sealed):
        done = task.read(record)
        if done is None:
            return f"{record.stage} has not run"
        if not done.accepted:
            return f"rejected by {record.stage}: {'; '.join(done.reasons)}"
    verified = task.read(Verified)
    if verified is None:
        return "" if unverified else "verify has not run"
    return "" if verified.accepted else f"excluded by verify: {verified.exclusion}"


def task_facts(task: TaskFolder, store: Store) -> TaskFacts:
    """What ships of one task. Its records up to seal must be there."""
    mined, validated = _must(task, Mined), _must(task, Validated)
    specified, sealed = _must(task, Specified), _must(task, Sealed)
    verified, tiered = task.read(Verified), task.read(Tiered)
    shipped = verified if verified is not None and verified.accepted else None
    fix = (shipped.fix_patch if shipped else None) or mined.fix_patch
    tests = (shipped.test_patch if shipped else None) or mined.test_patch
    release = store.settings.release
    if sealed.env_image is None or sealed.test_image is None:
        raise Malformed(task.path / "seal.json", "env_image", "an accepted record without its images")
    return TaskFacts(
        instance_id=task.id,
        benchmark=f"race-{release.name}",
        repo=mined.repo,
        base_commit=mined.base_commit,
        created_at=mined.authored_at,
        merged_at=mined.merged_at,
        statement=_text(task, specified.statement, "specify.json"),
        patch=_text(task, fix, "mine.json"),
        test_patch=_text(task, tests, "mine.json"),
        fail_to_pass=(shipped or validated).fail_to_pass,
        pass_to_pass=(shipped or validated).pass_to_pass,
        env_image=sealed.env_image.ref,
        test_image=sealed.test_image.ref,
        workdir=sealed.test_image.workdir,
        run_tests=sealed.run_tests,
        test_command=sealed.test_command,
        canary=release.canary,
        repeats=store.settings.tier.attempts,
        fix_lines=mined.fix_lines,
        version=release.version,
        kind=mined.kind or "",
        tier=tiered.tier if tiered and tiered.accepted else "",
        complexity=(tiered.complexity or "") if tiered and tiered.accepted else "",
        sample=release.sample,
        members=mined.members,
    )


def _must(task: TaskFolder, record: type[R]) -> R:
    found = task.read(record)
    if found is None:
        raise Malformed(task.path / f"{record.stage}.json", "", "is not there")
    return found


def _text(task: TaskFolder, ref: FileRef | None, record: str) -> str:
    if ref is None:
        raise Malformed(task.path / record, "", "names no file where one is needed")
    try:
        return task.read_file(ref).decode()
    except UnicodeDecodeError as error:
        raise Malformed(
            task.path / ref.path, f"byte {error.start}", "not UTF-8, which no task list can hold"
        ) from error
