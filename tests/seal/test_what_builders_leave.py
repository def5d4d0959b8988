"""What builders of images leave behind, and its clean counterparts."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kinds_builder import BUNDLE, CERTIFICATE, MOMENT, both, bundle, certifi, wide
from sabotage import FIX_LINE, Kit, audited, drop

from race.ports import Engine
from race.work.leak_scan import AuditRequest, audit_image


@pytest.mark.engine
@pytest.mark.parametrize(
    "setting", ["SSL_CERT_FILE=/opt/own.crt", "REQUESTS_CA_BUNDLE=/root/ca.pem", "PIP_CERT=/ca.crt"]
)
def test_a_bundle_named_in_the_environment_is_found(
    setting: str, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """A variable that sends every client to a bundle of somebody's own tells of the builder."""
    audit = audited(
        engine, workshop.clean, workshop, tar_of, tmp_path, names, changes=(f"ENV {setting}",)
    )
    result = next(p for p in audit.probes if p.name == "certificate-authorities")
    assert [f.path for f in result.findings] == [f"env {setting.split('=')[0]}"]


@pytest.mark.engine
def test_a_fraction_of_a_second_is_found(
    workshop, kit: Kit, engine: Engine, names: str, tmp_path: Path
) -> None:
    """All files have one second; the fixed one alone has a fraction of it."""
    tag, path = f"{names}:fraction", "repo/src/tallybook/counter.py"
    root = workshop.copy(tmp_path / "root")
    wide(root, kit)
    with tarfile.open(tmp_path / "root.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(root.rglob("*")):
            info = archive.gettarinfo(file, str(file.relative_to(root)))
            info.mtime = MOMENT + 0.25 if info.name == path else MOMENT
            if info.isreg():
                with file.open("rb") as stream:
                    archive.addfile(info, stream)
            else:
                archive.addfile(info)
    engine.import_image(tmp_path / "root.tar", tag)
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.strict, live=False))
        found = next(p for p in audit.probes if p.name == "file-times").findings
        assert [f.path for f in found] == [f"/{path}"]
    finally:
        engine.remove_image(tag)


@pytest.mark.engine
def test_a_layer_of_the_patched_file_alone_is_found(
    workshop, kit: Kit, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """The same bytes and the same time, but copied once more: the layer points at the file. A layer
    with other files of the tree points at none."""
    root = workshop.copy(tmp_path / "root")
    wide(root, kit)
    lower, upper = f"{names}:whole-tree", f"{names}:one-more-copy"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), lower)
    path = "src/tallybook/counter.py"
    try:
        for also in ((), ("src/tallybook/report.py",)):
            files = {name: (root / "repo" / name).read_bytes() for name in (path, *also)}
            copies = "".join(f"COPY f{n} /repo/{name}\n" for n, name in enumerate(files))
            if also:
                copies = "COPY tree /repo/\n"
            context = {f"f{n}": data for n, data in enumerate(files.values())}
            context |= {f"tree/{name}": data for name, data in files.items()}
            engine.build({"Dockerfile": f"FROM {lower}\n{copies}".encode(), **context}, tag=upper)
            try:
                request = AuditRequest(image=upper, wanted=workshop.strict, live=False)
                told = next(p for p in audit_image(engine, request).probes if p.name == "file-times")
                assert [f.path for f in told.findings] == ([] if also else [f"/repo/{path}"])
            finally:
                engine.remove_image(upper)
    finally:
        engine.remove_image(lower)


def _later_cache(root: Path, kit: Kit) -> None:
    """Byte-code written beside the sources: the folder is new because of what lies in it."""
    wide(root, kit)
    drop("repo/src/tallybook/__pycache__/report.cpython-311.pyc", b"\xa7\r\r\n" + bytes(12))(root, kit)
    for path in ("__pycache__", "__pycache__/report.cpython-311.pyc", ""):
        os.utime(root / "repo/src/tallybook" / path, (MOMENT + 500, MOMENT + 500))


CLEAN: dict[str, Callable[[Path, Kit], None]] = {
    "bundle as its package brought it": bundle(3),
    "installed bundle as it was recorded": certifi(len(CERTIFICATE) * 2),
    "bundle of a system without packages": drop(BUNDLE, CERTIFICATE * 5),
    "resolver that anybody may use": drop("etc/resolv.conf", "nameserver 1.1.1.1\noptions edns0\n"),
    "resolver of the container itself": drop("etc/resolv.conf", "nameserver 127.0.0.11\n"),
    "tree of many folders": wide,
    "byte-code beside the sources": _later_cache,
    "an interpreter in a home": both(
        drop("root/.pyenv/versions/3.11.7/lib/python3.11/abc.py", "x = 1\n"),
        drop("home/agent/venv/lib/python3.11/site-packages/a.py", "x = 1\n"),
        drop("root/miniconda3/etc/profile.d/conda.sh", "true\n"),
    ),
}


@pytest.mark.engine
@pytest.mark.parametrize("name", CLEAN)
def test_what_packages_and_builds_bring_is_no_finding(
    name: str, kit: Kit, workshop, engine: Engine, tar_of, names: str, tmp_path: Path
) -> None:
    """The clean counterpart of each: no finding."""
    root = workshop.copy(tmp_path / "root")
    CLEAN[name](root, kit)
    audit = audited(engine, root, workshop, tar_of, tmp_path, names)
    assert audit.clean, [(p.name, p.findings) for p in audit.probes if p.findings]


@pytest.mark.engine
def test_a_remark_on_a_whole_archive_is_found(
    workshop, engine: Engine, names: str, tmp_path: Path
) -> None:
    """A header that speaks of all files of a layer ships too, and is searched."""
    tag = f"{names}:remark"
    with tarfile.open(
        tmp_path / "root.tar", "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": FIX_LINE}
    ) as archive:
        for path in sorted(workshop.clean.rglob("*")):
            archive.add(path, str(path.relative_to(workshop.clean)), recursive=False)
    engine.import_image(tmp_path / "root.tar", tag)
    try:
        audit = audit_image(engine, AuditRequest(image=tag, wanted=workshop.strict, live=False))
        found = next(p for p in audit.probes if p.name == "elsewhere").findings
        assert [f.path for f in found] == ["/etc!attributes"]
    finally:
        engine.remove_image(tag)
