"""Makes the composites of release.toml: several mined fixes to one project as one task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from race.core.composites import combine
from race.core.mining.diffs import sections
from race.core.mining.split import size
from race.core.records import Finding, Mined, digest
from race.errors import Malformed, Missing, Rejection
from race.ports import History
from race.progress import Progress
from race.settings import CompositeSection
from race.store import Store
from race.workbench import Workbench

Histories = Callable[[str], History]


def mine_composites(store: Store, bench: Workbench, progress: Progress) -> list[str]:
    """Write the task folder of every composite whose members are mined; the ids that were written.

    The caller holds the lock. A composite is left alone while its members' mining records and its
    own section are the same. One that does not apply, or that has a rejected member, is recorded
    as rejected. One whose members are not all mined yet waits, and `progress` says so. Raises
    Malformed when release.toml names members of several projects, Missing without their clone.
    """

    def history(repo: str) -> History:
        known = store.read_local("clones.json")
        path = known.get(repo) or bench.workspace.clones.get(repo)
        if not path:
            raise Missing(f"composites of {repo} need its clone; run `race mine` with --clone first")
        return bench.clone(Path(path), repo)

    written = []
    for section in store.settings.composite:
        members = [store.task(name).read(Mined) for name in section.members]
        absent = [name for name, found in zip(section.members, members, strict=True) if found is None]
        if absent:
            progress.say(f"mine: {section.id}: waits for {', '.join(absent)}")
            continue
        record = _compose(store, section, [found for found in members if found], history)
        if record is not None:
            written.append(record.instance_id)
            verdict = "; ".join(record.reasons) or f"combines {', '.join(record.members)}"
            progress.say(f"mine: {section.id}: {verdict}")
    return written


def _inputs(store: Store, section: CompositeSection) -> dict[str, str]:
    digests = {name: store.task(name).record_digest("mine") for name in section.members}
    return {"members": digest(digests), "release": digest(section.model_dump(mode="json"))}


def _compose(
    store: Store, section: CompositeSection, members: list[Mined], history: Histories
) -> Mined | None:
    task = store.task(section.id)
    inputs = _inputs(store, section)
    before = task.read(Mined)
    if before is not None and before.inputs == inputs:
        return None
    if len({member.repo for member in members}) > 1:
        raise Malformed(
            store.folder / "release.toml", f"composite.{section.id}", "members of several projects"
        )
    members = sorted(members, key=lambda member: (member.merged_at, member.pr))
    record = _head(section, members).model_copy(
        update={"inputs": inputs, "sample": store.settings.release.sample}
    )
    out = [member.instance_id for member in members if not member.accepted]
    if out:
        finding = Finding(rule="composite-member", message=f"mining turned down {', '.join(out)}")
        record = record.model_copy(update={"accepted": False, "findings": (finding,)})
        task.write(record)
        return record
    source = history(record.repo)
    try:
        fix, test = (
            combine(
                [_patch(store, member, which) for member in members],
                lambda path: source.read(record.base_commit, path),
            )
            for which in ("fix_patch", "test_patch")
        )
    except Rejection as error:
        finding = Finding(rule=error.rule, message=error.message, place=error.place)
        record = record.model_copy(update={"accepted": False, "findings": (finding,)})
        task.write(record)
        return record
    record = record.model_copy(
        update={
            "product_files": tuple(part.path for part in sections(fix)),
            "test_files": tuple(part.path for part in sections(test)),
            "fix_lines": size(list(sections(fix))),
            "fix_patch": task.write_file("fix.patch", fix),
            "test_patch": task.write_file("test.patch", test),
        }
    )
    task.write(record)
    return record


def _patch(store: Store, member: Mined, which: str) -> bytes:
    ref = member.fix_patch if which == "fix_patch" else member.test_patch
    if ref is None:
        raise Malformed(store.task(member.instance_id).path / "mine.json", which, "accepted without it")
    return store.task(member.instance_id).read_file(ref)


def _head(section: CompositeSection, members: list[Mined]) -> Mined:
    """Base and licence are the oldest member's, the dates the newest's.

    The complete solution became public with the newest member; that is the composite's era, and
    what its environment is dated by.
    """
    oldest, newest = members[0], members[-1]
    return Mined(
        instance_id=section.id,
        accepted=True,
        repo=oldest.repo,
        pr=newest.pr,
        title="; ".join(member.title for member in members),
        merged_at=newest.merged_at,
        authored_at=newest.authored_at,
        base_commit=oldest.base_commit,
        merge_commit=newest.merge_commit,
        merge_style=newest.merge_style,
        licence=oldest.licence,
        linked_issues=tuple(sorted({issue for member in members for issue in member.linked_issues})),
        kind=newest.kind,
        score=min(member.score for member in members),
        signals={},
        told=tuple(text for member in members for text in member.told),
        members=tuple(member.instance_id for member in members),
    )
