"""Everything about one task that its statement is written from and audited against."""

from __future__ import annotations

import ast
import io
import lzma
import tarfile
from dataclasses import dataclass

from race.core.interface.applying import apply_diff
from race.core.interface.extract import Interface
from race.core.interface.items import InterfaceItem
from race.core.records import FileRef, Mined
from race.core.statement.behaviour import Behaviour, behaviour_of
from race.core.statement.writer import Facts
from race.core.statement_audit.case import Case
from race.core.validated import Validated
from race.errors import Malformed
from race.store import TaskFolder

_LARGEST = 8 * 2**20


@dataclass(frozen=True)
class Material:
    """The task as the writer and the auditor see it."""

    facts: Facts
    case: Case
    sources: dict[str, str]
    interface: tuple[InterfaceItem, ...]


def read_tree(name: str, archive: bytes) -> dict[str, bytes]:
    """The regular files of a source.tar.xz. Malformed when it is none."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:xz") as tar:
            return {
                member.name.removeprefix("./"): stream.read()
                for member in tar
                if member.isfile() and member.size <= _LARGEST and (stream := tar.extractfile(member))
            }
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise Malformed(name, "", f"no tar.xz archive: {error}") from error


def material(task: TaskFolder, mined: Mined, validated: Validated) -> Material:
    """Read the task's files and work out interface and behaviours."""
    if validated.source is None or mined.fix_patch is None or mined.test_patch is None:
        raise Malformed(task.path, "", "has no source archive, fix patch or test patch")
    base = read_tree(str(task.path / validated.source.path), task.read_file(validated.source))
    fix, tests = task.read_file(mined.fix_patch), task.read_file(mined.test_patch)
    before = _apply(task, base, tests, mined.test_patch)
    after = _apply(task, before, fix, mined.fix_patch)
    trees = Interface(before, after)
    wanted = validated.fail_to_pass
    interface = tuple(trees.items(wanted))
    behaviours = {test: behaviour_of(trees, test) for test in wanted}
    facts = Facts(
        project=project_name(mined.repo),
        kind=mined.kind,
        behaviours=behaviours,
        failures={test: validated.failures[test] for test in wanted if test in validated.failures},
        interface=interface,
    )
    case = _case(mined, validated, trees, facts, behaviours, fix, tests)
    return Material(facts, case, {test: _source(trees, test) for test in wanted}, interface)


def _apply(task: TaskFolder, tree: dict[str, bytes], patch: bytes, ref: FileRef) -> dict[str, bytes]:
    try:
        return apply_diff(tree, patch)
    except Malformed as error:
        raise Malformed(task.path / ref.path, error.place, error.what) from error


def _case(
    mined: Mined,
    validated: Validated,
    trees: Interface,
    facts: Facts,
    behaviours: dict[str, Behaviour],
    fix: bytes,
    tests: bytes,
) -> Case:
    digits = [
        int(part)
        for text in (*mined.linked_issues, *mined.members)
        for part in [text.rstrip("/").replace("#", "/").replace("-", "/").rpartition("/")[2]]
        if part.isdigit()
    ]
    return Case(
        statement="",
        fix_patch=fix,
        test_patch=tests,
        interface=facts.interface,
        behaviours=behaviours,
        failures=facts.failures,
        hidden_ids=[*validated.fail_to_pass, *validated.pass_to_pass],
        trees=trees,
        title=mined.title,
        told=mined.told,
        numbers=[mined.pr, *digits],
        commits=[mined.base_commit, mined.merge_commit],
        repo=mined.repo,
    )


def project_name(repo: str) -> str:
    """`anyio` of `agronholm/anyio`."""
    return repo.rpartition("/")[2]


def _source(trees: Interface, test_id: str) -> str:
    """The text of a hidden test function."""
    path = test_id.split("::")[0]
    function, _ = trees.function(test_id)
    data = trees.after.files.get(function.path if function else path, b"").decode(errors="replace")
    if function is None:
        return ""
    return ast.get_source_segment(data, function.node) or ""
