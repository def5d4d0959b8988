"""Sabotaged configurations and layers, clean images, live probes, and images that lack something."""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from sabotage import (
    FIX_LINE,
    Kit,
    audited,
    drop,
)

from race.ports import Engine
from race.work.base_images import ensure_base
from race.work.leak_scan import AuditRequest, audit_image
from race.work.sealing import contract

CONFIGURED = {
    "label with a revision": (
        "image-metadata",
        'LABEL org.opencontainers.image.revision="f8b9f011e548c2c1"',
    ),
    "link in the environment": ("image-metadata", "ENV SEE=https://example.invalid/o/r/pull/7"),
    "fix line in a label": ("image-metadata", f'LABEL note="{FIX_LINE}"'),
    "fix in a label, encoded": (
        "image-metadata",
        f"LABEL note={base64.b64encode(f'# see here: {FIX_LINE}'.encode()).decode()}",
    ),
    "fix line in the command": ("image-metadata", f'CMD ["sh", "-c", "{FIX_LINE}"]'),
    "fix line in the environment": ("image-metadata", f'ENV HINT="{FIX_LINE}"'),
    "proxy in the environment": ("proxy-settings", "ENV HTTPS_PROXY=http://user:pw@10.0.0.9:3128"),
    "volume": ("volumes-and-ports", "VOLUME /data"),
}


@pytest.mark.engine
@pytest.mark.parametrize("name", CONFIGURED)
def test_the_configuration_of_an_image_is_probed(
    name: str, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """Labels, environment and volumes that tell something are findings; no password is shown."""
    probe, change = CONFIGURED[name]
    audit = audited(engine, workshop.clean, workshop, tar_of, tmp_path, names, changes=(change,))
    result = next(p for p in audit.probes if p.name == probe)
    assert result.findings
    assert all("pw@" not in finding.excerpt for finding in result.findings)


@pytest.mark.engine
def test_an_extended_attribute_is_found(workshop, engine: Engine, names: str, tmp_path: Path) -> None:
    """What a file's header carries beside its content ships too, and is searched."""
    tag = f"{names}:attribute"
    with tarfile.open(tmp_path / "root.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(workshop.clean.rglob("*")):
            info = archive.gettarinfo(path, str(path.relative_to(workshop.clean)))
            if info.name == "etc/os-release":
                info.pax_headers = {"SCHILY.xattr.user.note": FIX_LINE}
            with path.open("rb") if path.is_file() else io.BytesIO() as stream:
                archive.addfile(info, stream if info.isreg() else None)
    engine.import_image(tmp_path / "root.tar", tag)
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.strict, live=False))
        found = next(p for p in audit.probes if p.name == "elsewhere").findings
        assert [f.path for f in found] == ["/etc/os-release!attributes"]
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
def test_a_build_argument_is_found(workshop, engine: Engine, tar_of, names: str, tmp_path: Path) -> None:
    """The history of an image keeps the arguments of its build."""
    base, top = f"{names}:argument-base", f"{names}:argument"
    engine.import_image(tar_of(workshop.clean, tmp_path / "root.tar"), base)
    dockerfile = f'FROM {base}\nARG HINT="{FIX_LINE}"\nLABEL built=yes\n'
    engine.build({"Dockerfile": dockerfile.encode()}, tag=top)
    try:
        audit = audit_image(engine, AuditRequest(image=top, wanted=workshop.strict, live=False))
        found = next(p for p in audit.probes if p.name == "image-metadata").findings
        assert [f.path.split("[")[0] for f in found] == ["history"]
    finally:
        engine.remove_image(top)
        engine.remove_image(base)


@pytest.mark.engine
def test_a_file_deleted_in_a_later_layer_is_found(
    workshop, kit: Kit, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """What a later layer deletes or overwrites is still shipped, and is found with its layer."""
    root = workshop.copy(tmp_path / "root")
    drop("repo/answer.py", kit.counter)(root, kit)
    drop("opt/notes", FIX_LINE)(root, kit)
    base, top = f"{names}:lower", f"{names}:upper"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), base)
    dockerfile = f"FROM {base}\nCOPY notes /opt/notes\n"
    engine.build({"Dockerfile": dockerfile.encode(), "notes": b"nothing\n"}, tag=top)
    try:
        request = AuditRequest(image=top, wanted=workshop.strict, live=False)
        audit = audit_image(engine, request)
        deleted = next(p for p in audit.probes if p.name == "deleted-files")
        assert [(f.path, f.layer) for f in deleted.findings] == [("/opt/notes", 0)]
        tree = next(p for p in audit.probes if p.name == "work-tree")
        assert [(f.path, f.layer) for f in tree.findings] == [("/repo/answer.py", 0)]
    finally:
        engine.remove_image(top)
        engine.remove_image(base)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("held", "recorded", "failing"),
    [
        ("nothing\n", True, set()),
        ("nothing\n", False, {"wheels-and-caches"}),
        (FIX_LINE, True, {"fix-and-tests"}),
    ],
)
def test_an_archive_that_a_distribution_ships_is_searched_but_no_finding(
    held: str, recorded: bool, failing: set[str],
    workshop, kit: Kit, engine: Engine, tar_of, names: str, tmp_path: Path,
) -> None:  # fmt: skip
    """A recorded data archive is no finding; one that nobody records, or that holds the fix, is."""
    root = workshop.copy(tmp_path / "root")
    site = root / "opt/venv/lib/python3.11/site-packages"
    egg = site / "tools/tests/data/thing-1.0-py3.7.egg"
    egg.parent.mkdir(parents=True)
    with zipfile.ZipFile(egg, "w") as archive:
        archive.writestr("thing/data.txt", held)
    line = f"tools/tests/data/{egg.name},sha256=abc,{egg.stat().st_size}\n" if recorded else ""
    kit.write(site, {"tools-1.dist-info/RECORD": line + "tools-1.dist-info/RECORD,,\n"})
    audit = audited(engine, root, workshop, tar_of, tmp_path, names)
    found = {p.name for p in audit.probes if p.findings}
    if failing == {"fix-and-tests"}:
        assert any(egg.name in f.path for p in audit.probes for f in p.findings)
        assert "wheels-and-caches" not in found
    else:
        assert found == failing


@pytest.mark.engine
@pytest.mark.parametrize("strict", [True, False])
def test_the_clean_image_has_no_finding(
    strict: bool, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """Nothing is found in the unspoiled image, with the base tree given or not."""
    tag = f"{names}:clean-{strict}"
    engine.import_image(tar_of(workshop.clean, tmp_path / "root.tar"), tag)
    wanted = workshop.strict if strict else workshop.wanted
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=wanted))
        assert audit.clean, [(p.name, p.findings) for p in audit.probes if p.findings]
        assert audit.fragments.shortest_leak_lines == 1
        live = [p for p in audit.probes if p.name.startswith("live-")]
        assert all(not p.checked and "no shell" in p.why for p in live)
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
def test_live_probes_run_in_a_container_like_an_agent_s(
    workshop, bench, engine: Engine, names: str, tmp_path: Path
) -> None:
    """On an image with Python every live probe runs: no way out, one commit; a proxy is seen."""
    base = ensure_base(bench, "3.11").runtime
    tag = f"{names}:live"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(workshop.clean / "repo", "repo")
    for extra, expected in (("", set()), ("ENV HTTPS_PROXY=http://10.0.0.9:3128\n", {"live-proxy"})):
        dockerfile = f"FROM {base}\nADD repo.tar /\n{extra}WORKDIR /repo\n"
        context = {"Dockerfile": dockerfile.encode(), "repo.tar": buffer.getvalue()}
        image = engine.build(context, tag=tag)
        try:
            audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.strict))
            live = [p for p in audit.probes if p.name.startswith("live-")]
            assert len(live) == 11
            assert all(p.checked for p in live), [(p.name, p.why) for p in live if not p.checked]
            assert {p.name for p in live if p.findings} == expected
            assert contract(engine, image) == []
        finally:
            engine.remove_image(tag)


@pytest.mark.engine
def test_an_image_without_programs_is_a_finding(
    workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """An image that no shell starts from breaks the contract in one line, and is no accident."""
    tag = f"{names}:bare"
    image = engine.import_image(tar_of(workshop.clean, tmp_path / "root.tar"), tag)
    try:
        assert [finding.rule for finding in contract(engine, image)] == ["image-lacks-program"]
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
@pytest.mark.parametrize("program", ["git", "patch", "python3"])
def test_an_image_that_lacks_one_program_is_told_which(
    program: str, bench, engine: Engine, names: str
) -> None:
    """Without git, patch or Python an agent's image breaks the contract: one line that names it."""
    base, tag = ensure_base(bench, "3.11").runtime, f"{names}:no-{program}"
    steps = (
        f"FROM {base}\nRUN mkdir /repo && cd /repo && git init -q . && git -c user.name=a "
        f"-c user.email=a@b commit -q --allow-empty -m base && rm -f /usr/bin/{program} /bin/{program}\n"
    )
    image = engine.build({"Dockerfile": steps.encode()}, tag=tag)
    try:
        first, *others = contract(engine, image)
        assert (first.rule, first.message) == ("image-lacks-program", f"the image has no {program}")
        assert [other.rule for other in others] == (["image-lacks-head"] if program == "git" else [])
    finally:
        engine.remove_image(tag)


def test_git_is_there() -> None:
    """The battery uses the real git."""
    assert subprocess.run(["git", "--version"], capture_output=True, check=True).stdout
