"""What the members of a layer's archive carry is read, whatever their kind."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from small_images import LINE, NAME, audit, found, packed

from race.core.leaks.tarstream import ByteReader, members


def test_sparse_and_unknown_members_are_read_as_files() -> None:
    """GNU's sparse files, and kinds that the standard leaves open: their content is not skipped over."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind in (("odd", b"Z"), ("after", tarfile.REGTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(LINE)
            archive.addfile(info, io.BytesIO(LINE.encode()))
    reader = ByteReader(iter([buffer.getvalue()]))
    assert [(m.name, m.kind, m.content()) for m in members(reader)] == [
        ("odd", "f", LINE.encode()), ("after", "f", LINE.encode()),
    ]  # fmt: skip


def test_a_sparse_file_of_gnu_tar_is_read(tmp_path: Path) -> None:
    """What lies between the holes is read, and what follows is not lost."""
    with (tmp_path / "holes").open("wb") as stream:
        for number in range(12):
            stream.seek(number * 2**16)
            stream.write(b"%d " % number + LINE.encode())
        stream.truncate(2**21)
    (tmp_path / "next").write_text("next")
    for form in ("gnu", "pax"):
        command = [
            "tar",
            "--sparse",
            f"--format={form}",
            "-C",
            str(tmp_path),
            "-cf",
            "-",
            "holes",
            "next",
        ]
        data = subprocess.run(command, check=True, capture_output=True).stdout
        read = {m.name: m.content() for m in members(ByteReader(iter([data]))) if m.kind == "f"}
        assert read["next"] == b"next"
        assert read["holes"].count(LINE.encode()) == 12


def test_the_name_of_an_attribute_is_searched(workshop, tmp_path: Path) -> None:
    """An extended attribute tells by its name as well as by its value."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("opt/x")
        info.pax_headers = {f"SCHILY.xattr.user.{NAME}": "1"}
        archive.addfile(info)
    told = audit(workshop, [packed(workshop.clean), buffer.getvalue()])
    assert found(told, "hidden-test-names") == ["/opt/x!attributes"]
