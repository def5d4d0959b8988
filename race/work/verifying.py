"""The release check of one task: rebuilt from its folder, graded with the fix and with nothing."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from race.core.grading import Graded
from race.core.paths import Layout
from race.core.records import Finding, digest
from race.core.release_check import Lists, corrected, judged, stability, tidy
from race.core.repatch import Repatched, completed, separated
from race.core.sealed import Sealed
from race.core.verified import RunVerdict, Verified
from race.errors import Rejection
from race.ports import Image
from race.work import check_ledger
from race.work.cells import SLOTS
from race.work.check_repeats import unreliable
from race.work.grading import grade
from race.work.sealing import (
    Materials,
    audit_env,
    audit_test,
    build_images,
    contract,
    leak_findings,
    materials,
    recipe_findings,
)
from race.work.source import clone_of
from race.work.stage import Desk


@dataclass(frozen=True)
class Gradings:
    """One round: the outcomes of the listed ids, and the verdicts, of gold and empty runs."""

    gold: tuple[Graded, ...]
    empty: tuple[Graded, ...]


def verify_task(desk: Desk) -> Verified:
    """Check one task. Everything comes from its folder; images of earlier stages are built anew."""
    started = time.monotonic()
    made = materials(desk.task, desk.store)
    mined = made
    lists = tidy(made.fail_to_pass, made.pass_to_pass)
    layout = Layout(_paths(made.source))
    patches = separated(made.fix, made.tests, layout)
    made = _with(made, patches, lists)
    made, env, test = build_images(desk.bench, made, desk.say, fresh=True)
    findings = [*contract(desk.bench.engine, env), *named_otherwise(desk.task.read(Sealed), mined, made)]
    round_ = _grade(desk, made, test)
    if not any(run.resolved for run in round_.gold):
        patches = _completed(desk, made, patches, layout)
        if patches.tests != made.tests:
            made = _with(made, patches, lists)
            made, env, test = build_images(desk.bench, made, desk.say)
            round_ = _grade(desk, made, test)
    lists, round_, test, made = _settle(desk, made, lists, round_, test)
    desk.say("scanning the shipped images")
    live = desk.store.settings.seal.live_network
    env_audit, test_audit = (
        audit_env(desk.bench, made, env, desk.say),
        audit_test(desk.bench, made, test, desk.say),
    )
    findings += leak_findings(env_audit.probes, "agent's image", live=live)
    findings += leak_findings(test_audit.probes, "grading image", live=False)
    return _recorded(desk, made, lists, patches, round_, (env, test), findings, started)


def named_otherwise(sealed: Sealed | None, mined: Materials, made: Materials) -> list[Finding]:
    """Images that the seal's record names by another digest than what the release folder makes.

    The grading image is compared as it was sealed, before anything is corrected, and both as they
    were validated too: newer templates are told by `recipe_findings`.
    """
    if sealed is None:
        return []
    built = replace(mined, built_recipe=made.built_recipe).recipes
    return [
        Finding(
            rule="image-digest",
            message=(
                f"seal.json names {named.ref} by recipe {named.recipe[:12]}, "
                f"but the release folder makes {now.ref} by {now.recipe[:12]}"
            ),
            place=named.ref,
        )
        for named, now, then in zip(
            (sealed.env_image, sealed.test_image), built, mined.recipes, strict=True
        )
        if named is not None and named not in (now, then)
    ]


def _with(made: Materials, patches: Repatched, lists: Lists) -> Materials:
    return replace(
        made,
        fix=patches.fix,
        tests=patches.tests,
        fail_to_pass=lists.fail_to_pass,
        pass_to_pass=lists.pass_to_pass,
    )


def _paths(tar: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return [member.name.removeprefix("./") for member in archive if not member.isdir()]


def _completed(desk: Desk, made: Materials, patches: Repatched, layout: Layout) -> Repatched:
    """With a clone at hand: test-side files of the change that the test patch misses."""
    path = clone_of(desk.bench, desk.store, made.mined.repo)
    if path is None or made.mined.members:
        return patches
    history = desk.bench.clone(path, made.mined.repo)
    whole = history.diff(made.mined.base_commit, made.mined.merge_commit)
    found = completed(patches.tests, patches.fix, whole, layout)
    return replace(found, corrections=(*patches.corrections, *found.corrections))


def _grade(desk: Desk, made: Materials, test: Image) -> Gradings:
    settings = desk.store.settings.verify
    if not made.fail_to_pass:
        raise Rejection("empty-list", "no fail-to-pass test is left that every run supports")

    def run(patch: bytes, number: int, kind: str, of: int) -> Graded:
        desk.say(f"grading {kind} {number} of {of}")
        with SLOTS:
            return grade(
                desk.bench.engine,
                test.id,
                patch,
                instance_id=desk.task.id,
                fail_to_pass=made.fail_to_pass,
                pass_to_pass=made.pass_to_pass,
                run_empty=True,
            )

    return Gradings(
        tuple(run(made.fix, n + 1, "the fix", settings.gold) for n in range(settings.gold)),
        tuple(run(b"", n + 1, "nothing", settings.empty) for n in range(settings.empty)),
    )


def _settle(
    desk: Desk, made: Materials, lists: Lists, first: Gradings, test: Image
) -> tuple[Lists, Gradings, Image, Materials]:
    """Correct the lists by what ran, and grade again in an image with the corrected ones.

    With a reference fix that is refused nothing ran, and nothing is known about the lists.
    """
    if _refusal(first):
        return lists, first, test, made
    better = corrected(lists, _outcomes(first.gold), _outcomes(first.empty))
    if better.corrections == lists.corrections or not better.fail_to_pass:
        return better, first, test, made
    made = replace(made, fail_to_pass=better.fail_to_pass, pass_to_pass=better.pass_to_pass)
    made, _, test = build_images(desk.bench, made, desk.say)
    return better, _grade(desk, made, test), test, made


def _refusal(ran: Gradings) -> str:
    """Why no grading with the reference fix came to run a test; '' when one did."""
    if any(run.verdict != "refused" for run in ran.gold):
        return ""
    return "; ".join(dict.fromkeys(reason for run in ran.gold for reason in run.reasons))


def _outcomes(runs: tuple[Graded, ...]) -> list[Mapping[str, str]]:
    return [{**run.fail_to_pass, **run.pass_to_pass} for run in runs]


def _recorded(
    desk: Desk,
    made: Materials,
    lists: Lists,
    patches: Repatched,
    ran: Gradings,
    images: tuple[Image, Image],
    findings: list[Finding],
    started: float,
) -> Verified:
    env, test = images
    key = digest({"recipes": [recipe.recipe for recipe in made.recipes]})
    number = len(check_ledger.checks(desk)) + 1
    gold = tuple(_verdict(run, f"check-{number}/gold-{n + 1}") for n, run in enumerate(ran.gold))
    empty = tuple(_verdict(run, f"check-{number}/empty-{n + 1}") for n, run in enumerate(ran.empty))
    exclusion, failed = judged(lists, gold, empty, _refusal(ran))
    repeats = desk.store.settings.verify.repeats
    if not failed and repeats:
        failed = tuple(unreliable(desk, made, env, repeats))
        exclusion = "; ".join(finding.message for finding in failed)
    runs = [run.run_id for run in (*gold, *empty)]
    stood = not failed
    flip = stability(stood, runs, check_ledger.earlier(desk, key))
    if flip is not None and flip.severity == "error":
        failed, exclusion = (*failed, flip), exclusion or flip.message
    findings = [*findings, *failed]
    accepted = not findings
    remarks = [flip] if flip is not None and flip.severity == "warning" else []
    check_ledger.keep(desk, key, number, stood, gold + empty, ran.gold + ran.empty)
    desk.note(
        env_id=env.id,
        test_id=test.id,
        check=number,
        grading_seconds=[round(run.seconds, 2) for run in (*ran.gold, *ran.empty)],
        seconds=round(time.monotonic() - started, 1),
    )
    if accepted:
        gold, empty = (tuple(_unnumbered(run) for run in some) for some in (gold, empty))
    seen = {i for run in ran.gold for i, outcome in _outcomes((run,))[0].items() if outcome != "missing"}
    env_recipe, test_recipe = made.recipes
    return Verified(
        instance_id=desk.task.id,
        accepted=accepted,
        findings=(*findings, *remarks, *recipe_findings(made)),
        env_image=env_recipe,
        test_image=test_recipe,
        fail_to_pass=lists.fail_to_pass,
        pass_to_pass=lists.pass_to_pass,
        fix_patch=_kept(desk, "fix.corrected.patch", patches.fix, "test-file-in-fix-patch", patches),
        test_patch=_kept(desk, "test.corrected.patch", patches.tests, "", patches),
        corrections=(*patches.corrections, *lists.corrections),
        gold=gold,
        empty=empty,
        repeats=repeats if not failed else 0,
        collected=len(seen),
        exclusion=exclusion or "; ".join(finding.message for finding in findings),
    )


def _kept(desk: Desk, name: str, patch: bytes, rule: str, patches: Repatched) -> Any:
    """A corrected patch as a file beside the record; None when it is as mined."""
    rules = {correction.rule for correction in patches.corrections}
    if not rules or (rule and rule not in rules):
        return None
    return desk.task.write_file(name, patch)


def _verdict(run: Graded, run_id: str) -> RunVerdict:
    every = {**run.fail_to_pass, **run.pass_to_pass}
    failed = tuple(sorted(i for i, outcome in every.items() if outcome != "passed"))
    return RunVerdict(run_id=run_id, verdict=run.verdict, failed=failed)


def _unnumbered(run: RunVerdict) -> RunVerdict:
    """Without the check's number: a record of a task that ships is the same after every check."""
    return run.model_copy(update={"run_id": run.run_id.split("/", 1)[-1]})
