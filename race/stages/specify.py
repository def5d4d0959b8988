"""Stage specify: write the bug report that an agent sees, and audit it."""

from __future__ import annotations

import json

from race.core.records import FileRef, Finding, Mined, canonical, sha256
from race.core.specified import Specified
from race.core.validated import Validated
from race.errors import Malformed
from race.stages._loop import stage_command
from race.store import Store, TaskFolder
from race.work.specifying import material
from race.work.stage import Desk, Stage
from race.work.writing import Assignment, Statement, audited, write_statement
from race.workbench import Workbench

STATEMENT = "statement.md"
TRANSCRIPT = "statement.calls.json"
METHOD = "4"
"""Changes when the writer or the rules change, so that statements are written and audited again."""

_OWN = "specify/written.json"


def _own(task: TaskFolder) -> list[str]:
    """Digests of the statements that this machine wrote for a task by itself."""
    try:
        value = json.loads(task.evidence_path(_OWN).read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _edited(task: TaskFolder) -> bytes | None:
    """The statement as a maintainer left it; None when there is none or it is our own.

    It is the maintainer's when it differs from what the record names and this machine did not write
    it (a killed run may have), or when the record already says so.
    """
    try:
        text = (task.path / STATEMENT).read_bytes()
    except FileNotFoundError:
        return None
    record = task.read(Specified)
    if record is not None and record.statement is not None and record.statement.sha256 == sha256(text):
        return text if record.edited else None
    return None if sha256(text) in _own(task) else text


def _inputs(task: TaskFolder, store: Store) -> dict[str, str]:
    found = {
        "mine": task.record_digest("mine"),
        "validate": task.record_digest("validate"),
        "settings": store.settings.slice_digest("specify"),
        "method": METHOD,
    }
    edited = _edited(task)
    if edited is not None:
        found["edited statement"] = sha256(edited)
    return found


def _made(task: TaskFolder, store: Store, bench: Workbench) -> bool:
    """The statement is still there; one that was deleted is written again."""
    return (task.path / STATEMENT).is_file()


def _work(desk: Desk) -> Specified:
    task, settings = desk.task, desk.store.settings.specify
    mined, validated = task.read(Mined), task.read(Validated)
    if mined is None or validated is None:
        raise Malformed(task.path, "", "has no mine or validate record")
    desk.say("reading tests and trees")
    found = material(task, mined, validated)
    job = Assignment(
        facts=found.facts,
        case=found.case,
        sources=found.sources,
        rounds=max(settings.rounds, 1),
        writer=desk.bench.model(settings.model) if settings.model else None,
        auditor=desk.bench.model(settings.auditor_model) if settings.auditor_model else None,
        say=desk.say,
    )
    edited = _edited(task)
    if edited is not None:
        result = audited(job, _decoded(task, edited))
        statement = FileRef(path=STATEMENT, sha256=sha256(edited), bytes=len(edited))
    else:
        result = write_statement(job)
        data = result.text.encode()
        known = _own(task)
        task.evidence(_OWN, canonical(sorted({*known, sha256(data)})))
        statement = task.write_file(STATEMENT, data)
    return Specified(
        instance_id=task.id,
        accepted=not result.findings,
        findings=tuple(_shown(result.findings)),
        statement=statement,
        writer=result.writer,
        edited=edited is not None,
        auditor=result.auditor,
        rounds=result.rounds,
        interface=found.interface,
        coverage=result.coverage,
        calls=tuple(result.calls),
        transcript=_transcript(desk, result),
    )


def _decoded(task: TaskFolder, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Malformed(task.path / STATEMENT, f"byte {error.start}", "not UTF-8") from error


def _shown(findings: list[Finding]) -> list[Finding]:
    return [
        finding.model_copy(update={"place": f"{STATEMENT} {finding.place}".strip()})
        for finding in findings
    ]


def _transcript(desk: Desk, result: Statement) -> FileRef | None:
    """What models were asked and answered. It shows hidden tests, so it carries the canary."""
    if not result.transcript:
        return None
    content = {"canary": desk.store.settings.release.canary, "calls": result.transcript}
    return desk.task.write_file(TRANSCRIPT, canonical(content))


STAGE = Stage(name="specify", record=Specified, inputs=_inputs, work=_work, made=_made)
command = stage_command(
    STAGE,
    "Write each task's bug report from what was observed, and audit it. A statement.md that you edited "
    "is audited and kept as it is; delete it to have it written again.",
    ("race specify tasks/sample", "race specify tasks/sample sample__brook-7 --force"),
)
