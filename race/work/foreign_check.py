"""The release check of tasks that somebody else made: their images, their own way of grading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from race.core.foreign import ForeignTask, log_outcomes, report_outcomes, resolved
from race.core.leaks.fragments import wanted_from
from race.core.leaks.patchtext import read_patch
from race.core.records import Finding
from race.core.release_check import Lists, corrected, judged, tidy
from race.core.verified import Correction, RunVerdict
from race.errors import Malformed, UsageError
from race.ports import Container, ContainerSpec, Engine, Limits
from race.work.leak_scan import AuditRequest, audit_image
from race.work.sealing import contract, leak_findings
from race.workbench import Workbench

CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID", "SYS_CHROOT")
LIMIT = 1800.0
APPLY = (
    "git apply --verbose --whitespace=nowarn {patch}",
    "git apply --3way --whitespace=nowarn {patch}",
    "patch --batch --fuzz=5 -p1 -i {patch}",
)
Say = Callable[[str], None]


@dataclass
class Checked:
    """What the check of one row found. `corrections` are proposed; nothing of a foreign list changes."""

    instance_id: str
    gold: list[RunVerdict] = field(default_factory=list)
    empty: list[RunVerdict] = field(default_factory=list)
    corrections: tuple[Correction, ...] = ()
    findings: list[Finding] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against the task."""
        return not any(finding.severity == "error" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """For a program."""
        return {
            "instance_id": self.instance_id,
            "accepted": self.accepted,
            "gold": [run.model_dump(mode="json") for run in self.gold],
            "empty": [run.model_dump(mode="json") for run in self.empty],
            "corrections": [c.model_dump(mode="json") for c in self.corrections],
            "findings": [f.model_dump(mode="json") for f in self.findings],
        }


def check_foreign(
    bench: Workbench, task: ForeignTask, say: Say, *, runs: int = 3, audit: bool = True
) -> Checked:
    """Grade one row's reference fix and nothing, and scan its image for leaks.

    What is wrong with the row is a finding; EngineDown goes up.
    """
    done = Checked(task.instance_id)
    engine = bench.engine
    done.findings += _wrong_lists(task)
    for ref in dict.fromkeys((task.image, task.env_image)):
        if engine.image(ref) is None:
            done.findings.append(_absent(engine, ref))
    if any(finding.rule in ("no-image", "image-digest", "empty-list") for finding in done.findings):
        return done
    image = engine.image(task.image)
    lacking = contract(engine, image, task.workdir) if image else []
    if lacking:
        done.findings += lacking
        return done
    seen: dict[str, list[dict[str, str]]] = {"gold": [], "empty": []}
    for kind, patch, verdicts in (("gold", task.patch, done.gold), ("empty", "", done.empty)):
        for number in range(1, runs + 1):
            say(f"grading {kind} {number} of {runs}")
            outcomes, why = _grade(bench, task, patch)
            run_id = f"{kind}-{number}"
            if outcomes is None:
                done.findings.append(_error("no-report", f"{run_id}: {why}"))
                return done
            seen[kind].append(outcomes)
            failed = tuple(
                sorted(
                    i for i in (*task.fail_to_pass, *task.pass_to_pass) if outcomes.get(i) != "passed"
                )
            )
            verdict = "resolved" if resolved(task, outcomes) else "unresolved"
            verdicts.append(RunVerdict(run_id=run_id, verdict=verdict, failed=failed))
    lists = Lists(task.fail_to_pass, task.pass_to_pass)
    better = corrected(tidy(task.fail_to_pass, task.pass_to_pass), seen["gold"], seen["empty"])
    done.corrections = better.corrections
    done.findings += judged(lists, done.gold, done.empty)[1]
    if audit:
        done.findings += _leaks(bench, task, say)
    return done


def _absent(engine: Engine, ref: str) -> Finding:
    """Why the engine has no such image: another digest under the same name, or none at all."""
    name, _, digest = ref.partition("@")
    other = engine.image(name) if digest else None
    if other is None:
        return _error("no-image", f"image {ref} is not on this engine", ref)
    message = f"the row names {name} by digest {digest[:19]}, but this engine has {other.id[:19]}"
    return _error("image-digest", message, ref)


def _wrong_lists(task: ForeignTask) -> list[Finding]:
    found = []
    if not task.fail_to_pass:
        found.append(_error("empty-list", "no fail-to-pass test is listed"))
    both = sorted(set(task.fail_to_pass) & set(task.pass_to_pass))
    if both:
        found.append(_error("in-both-lists", f"{len(both)} ids are in both lists", both[0]))
    if not task.patch.strip():
        found.append(_error("no-fix", "the row has no reference fix"))
    return found


def _grade(bench: Workbench, task: ForeignTask, patch: str) -> tuple[dict[str, str] | None, str]:
    """Outcomes by id after this patch, or None and why there are none."""
    spec = ContainerSpec(
        image=task.image,
        workdir=task.workdir,
        capabilities=CAPABILITIES,
        limits=Limits(memory_mb=4096, pids=1024),
        lifetime=LIMIT + 300,
    )
    with bench.engine.container(spec) as container:
        if patch.strip() and not _applied(container, task, patch):
            return None, "the reference fix does not apply by any of the three ways"
        if task.kind == "soma":
            command = ["sh", "-lc", f"cd {task.workdir} && {task.run_tests}"]
            container.run(command, timeout=LIMIT)
            data = container.get(task.report)
            outcomes = report_outcomes(data) if data is not None else None
            return outcomes, f"the grading left no report at {task.report}"
        container.put("/", {"eval.sh": task.eval_script.encode()}, mode=0o755)
        result = container.run(["bash", "/eval.sh"], timeout=LIMIT, output_limit=2**25)
        return log_outcomes(result.output), "the script printed no test output between its marks"


def _applied(container: Container, task: ForeignTask, patch: str) -> bool:
    container.put("/tmp", {"soma-agent.patch": patch.encode()}, mode=0o644)
    container.run(["sh", "-lc", f"git config --global --add safe.directory {task.workdir}"], timeout=60)
    for way in APPLY:
        command = f"cd {task.workdir} && " + way.format(patch="/tmp/soma-agent.patch")
        if container.run(["sh", "-lc", command], timeout=120).exit_code == 0:
            return True
    return False


def _leaks(bench: Workbench, task: ForeignTask, say: Say) -> list[Finding]:
    try:
        tests = read_patch(task.test_patch.encode(), "test_patch") if task.test_patch.strip() else ()
        wanted = wanted_from(read_patch(task.patch.encode(), "patch"), tests)
    except Malformed as error:
        return [_error("malformed-patch", str(error))]
    say("scanning its image for leaks")
    request = AuditRequest(
        image=task.env_image,
        wanted=wanted,
        workdir=task.workdir,
        cache=bench.workspace.cache_dir,
        say=say,
    )
    try:
        audit = audit_image(bench.engine, request)
    except UsageError as error:
        return [_error("no-workdir", str(error))]
    return leak_findings(audit.probes, "agent's image", live=False)


def _error(rule: str, message: str, place: str = "") -> Finding:
    return Finding(rule=rule, message=message, place=place)


def read_list(path: Path) -> bytes:
    """A task list's bytes. UsageError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
