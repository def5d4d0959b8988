"""What lies inside files is found in every wrapping, and what is not opened is named."""

from __future__ import annotations

import base64
import gzip
import io
import os
import tarfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from wrappings import ENCODED, TEXT, WRAPPINGS, tarred, zipped

from race.core.leaks import encoded
from race.core.leaks.encoded import runs
from race.core.leaks.layers import Entry, LayerScan
from race.core.leaks.scanner import MOST_PARTS, LayerScanner
from race.core.leaks.tarstream import ByteReader, members
from race.core.leaks.unpack import Part, parts
from race.work.layer_search import LayerSearch, searching


def everything(data: bytes, depth: int = 6) -> bytes:
    """All that comes out of some bytes."""
    if depth == 0:
        return data
    return b"\n".join([data, *(everything(part.data, depth - 1) for part in parts(data))])


@pytest.mark.parametrize("name", WRAPPINGS)
def test_each_wrapping_is_opened(name: str, tmp_path: Path) -> None:
    """The text comes out again, whatever it was put into."""
    wrapped = WRAPPINGS[name](TEXT, tmp_path)
    assert TEXT[:40] not in wrapped
    assert TEXT[:40] in everything(wrapped)


@pytest.mark.parametrize("before", [b"DATA=", b"exec(decode(b'", b"x.y=z=", b""])
def test_base85_that_looks_like_a_name_is_opened(before: bytes) -> None:
    """Compressed at any second of half an hour: it may itself begin as a name and an equals sign."""
    missed = [
        second
        for second in range(1_780_000_000, 1_780_001_800)
        if TEXT[:40] not in everything(before + base64.b85encode(gzip.compress(TEXT, mtime=second)))
    ]
    assert missed == []


@pytest.mark.parametrize("width", [16, 20, 40, 76])
@pytest.mark.parametrize(
    "between", ["\n", "\r\n", "\n    ", '"\n        "', "'\n    '", '" \\\n  "', "\\n", '",\n  "']
)
def test_encoded_text_is_found_over_lines(width: int, between: str) -> None:
    """Wrapped, indented, quoted, joined by escapes: one run."""
    text = between.join(textwrap.wrap(ENCODED, width))
    assert any(TEXT[:40] in run.data for run in runs(f'x = ("{text}")\n'.encode()))


@pytest.mark.parametrize("before", ["", "a", "ab/", "xyz-", "data:;base64,"])
def test_text_before_encoded_text_does_not_shift_it_away(before: str) -> None:
    """Groups of four may begin anywhere."""
    assert any(TEXT[:40] in run.data for run in runs((before + ENCODED).encode()))


def scanned(workshop, path: str, data: bytes) -> LayerScan:
    """The scan of one file."""
    scanner = LayerScanner(workshop.strict, "/repo")
    scanner.add(Entry(path, "f", len(data), 0, 0o644), data)
    return scanner.finish("sha256:1", len(data))


def encrypted() -> bytes:
    """A zip whose member says that it is encrypted."""
    data = bytearray(zipped({"secret.py": TEXT}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"7z\xbc\xaf\x27\x1c" + os.urandom(90), "/x: 7-zip: searched as it is, but not unpacked"),
        (b"Rar!\x1a\x07" + os.urandom(90), "/x: rar: searched as it is, but not unpacked"),
        (encrypted(), "/x: zip secret.py (encrypted): not read whole"),
        (gzip.compress(TEXT * 50)[:-20], "/x: gzip content: not read whole"),
        (zstandard.ZstdCompressor().compress(os.urandom(5000))[:-9], "/x: zstd content: not read whole"),
        (zipped({"w.7z": b"7z\xbc\xaf\x27\x1c" + bytes(90)}), "/x!w.7z: 7-zip: searched as it is, but"),
    ],
    ids=["7-zip", "rar", "encrypted zip", "cut gzip", "cut zstandard", "7-zip in a zip"],
)
def test_what_is_not_opened_is_named_with_its_reason(workshop, data: bytes, said: str) -> None:
    """Closed formats, encrypted and damaged contents are listed, with the way to them."""
    unread = [f"{path}: {why}" for path, why in scanned(workshop, "/x", data).unread]
    assert len(unread) == 1
    assert unread[0].startswith(said)


def test_a_file_that_unpacks_to_too_much_is_named(workshop) -> None:
    """Searching ends at a bound, and says so once."""
    many = tarred({f"{n}": zipped({"a": b"x", "b": b"y"}) for n in range(150)})
    scanner = LayerScanner(workshop.strict, "/repo")
    scanner.most_parts = 100
    scanner.add(Entry("/bomb", "f", len(many), 0, 0o644), many)
    unread = scanner.finish("sha256:1", 1).unread
    assert [path for path, _ in unread] == ["/bomb"]
    assert "unpacks to more" in unread[0][1]
    assert MOST_PARTS > 10_000


def test_attributes_in_a_header_are_searched(workshop) -> None:
    """An extended attribute is read from the stream and searched like a file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("etc/motd")
        info.pax_headers = {"SCHILY.xattr.user.note": TEXT.decode(), "comment": "nothing"}
        archive.addfile(info, io.BytesIO(b""))
    (member,) = members(ByteReader(iter([buffer.getvalue()])))
    assert TEXT.strip() in member.attributes
    scanner = LayerScanner(workshop.strict, "/repo")
    scanner.add(Entry("/etc/motd", "f", 0, 0, 0o644), b"", member.attributes)
    (hit,) = scanner.finish("sha256:1", 1).hits
    assert (hit.path, hit.inside) == ("/etc/motd", "attributes")


def test_processes_give_the_scan_that_one_process_gives(workshop) -> None:
    """Files in batches, a large file in windows, git objects, names in paths: the same in any order."""
    scans = []
    for workers in (0, 2):
        with searching(workshop.strict, "/repo", workers) as search:
            layer = LayerSearch(search, few_bytes=2000)
            for path in sorted((workshop.clean / "repo").rglob("*")):
                name = "/" + path.relative_to(workshop.clean).as_posix()
                data = path.read_bytes() if path.is_file() else None
                layer.add(Entry(name, "f" if data is not None else "d", 1, 0, 0o644), data)
            layer.add(Entry("/opt/a", "f", 1, 0, 0o644), zipped({"x": TEXT}), b"")
            big = [b"\0" * 3_000_000, TEXT, b"\0" * 3_000_000]
            layer.add_stream(Entry("/opt/big", "f", 6_000_090, 0, 0o644), iter(big))
            layer.add(
                Entry("/srv/test_turnstile_starts_unlocked", "f", 1, 0, 0o644), b"7z\xbc\xaf\x27\x1c"
            )
            scans.append(layer.finish("sha256:1", 7))
    one, several = scans
    assert [hit.path for hit in one.hits]
    assert {hit.path for hit in one.hits} >= {
        "/opt/a",
        "/opt/big",
        "/srv/test_turnstile_starts_unlocked",
    }
    for field in ("entries", "hits", "compiled", "unread"):
        assert sorted(map(str, getattr(one, field))) == sorted(map(str, getattr(several, field)))
    assert one.kept == several.kept
    assert one.objects == several.objects


def test_parts_say_what_they_are() -> None:
    """A part names how it was opened and where it lay."""
    assert list(parts(gzip.compress(b"abc"))) == [Part("gzip", "content", b"abc")]


@pytest.mark.parametrize("encode", [base64.b64encode, base64.b85encode])
@pytest.mark.parametrize("shift", [-200, -60, -20, 0, 30])
def test_a_run_across_two_windows_of_a_large_file_is_found(
    encode: Callable[[bytes], bytes], shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are looked through in pieces; what lies across two of them is whole, and told once."""
    monkeypatch.setattr(encoded, "WINDOW", 4096)
    text = TEXT * 3
    before = b"plain words of a page\n" * 400
    at = 8192 + shift
    data = before[:at] + b"\n" + encode(text) + b"\n" + before
    found = [part for part in parts(data) if text[:60] in part.data]
    assert len(found) == 1
