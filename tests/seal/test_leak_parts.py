"""The parts of a leak audit, each against a plain reference."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from race.cli import run
from race.core.leaks.forms import excerpt_of, squeezed, worded
from race.core.leaks.fragments import wanted_from
from race.core.leaks.judge import standing
from race.core.leaks.layers import Entry, ImageView, LayerScan
from race.core.leaks.live import from_python, from_shell, understood
from race.core.leaks.matcher import MINIMUM, Matcher
from race.core.leaks.patchtext import read_patch
from race.core.leaks.scanner import LayerScanner
from race.core.leaks.tarstream import ByteReader, members
from race.core.leaks.unpack import PART_LIMIT, parts
from race.core.leaks.weight import ENOUGH, bits
from race.errors import Accident, Malformed
from race.ports import Engine, Image
from race.work.leak_scan import AuditRequest, audit_image

SMALL = st.binary(min_size=0, max_size=12)
TEXT = st.lists(st.sampled_from([b"a", b"b", b"ab", b"xyz", b"\x00"]), max_size=60).map(b"".join)


@given(TEXT, st.lists(TEXT, max_size=6), TEXT)
def test_the_matcher_finds_what_a_plain_search_finds(
    before: bytes, needles: list[bytes], after: bytes
) -> None:
    """Every occurrence at every alignment, and nothing else."""
    haystack = before + b"".join(needles) + after
    expected = {
        (at, number)
        for number, needle in enumerate(needles)
        if len(needle) >= MINIMUM
        for at in range(len(haystack))
        if haystack.startswith(needle, at)
    }
    assert Matcher(needles).find(haystack) == expected


def test_the_matcher_is_fast_enough_to_be_a_filter() -> None:
    """Six thousand needles in eight megabytes of other text take a few seconds at most."""
    needles = [hashlib.sha256(str(n).encode()).hexdigest().encode() for n in range(6000)]
    haystack = b"".join(hashlib.sha256(b"x%d" % n).digest() for n in range(250_000)) + needles[77]
    assert Matcher(needles).find(haystack) == {(len(haystack) - 64, 77)}


@pytest.mark.parametrize(
    "text",
    [
        b"if  amount>before and\n\tself._turnstile . locked():",
        b"IF AMOUNT > BEFORE AND SELF._TURNSTILE.LOCKED():",
        "if amount > before and self._turnstile.locked():".encode("utf-16-le"),
    ],
)
def test_formatting_does_not_hide_a_line(text: bytes) -> None:
    """White space, case and width are gone in the squeezed form."""
    assert squeezed(text) == b"ifamount>beforeandself._turnstile.locked():"


def test_the_worded_form_keeps_words_only() -> None:
    """Quotes, escapes and operators do not matter."""
    assert worded(b"['a_1', \"B\"] += c;") == b"a_1bc"


def test_an_excerpt_shows_the_place_in_the_leaking_file() -> None:
    """What a person sees is the text as it lies there, on one line, without control characters."""
    data = b"x\x07\nif a_b >\n\tc_d:\n"
    assert excerpt_of(data, b"if a_b > c_d:") == ("if a_b > c_d", False)
    assert excerpt_of(data, b"if a_b")[1]


def test_common_code_weighs_little() -> None:
    """Idioms that everybody writes are no evidence, particular names are."""
    assert bits([b"except", b"ValueError", b"pass", b"else"]) < ENOUGH
    assert bits([b"async", b"with", b"self", b"lock"]) < ENOUGH
    assert bits([b"self", b"_waiters", b"discard", b"waiter"]) > ENOUGH


PATCH = b"""\
diff --git a/pkg/x.py b/pkg/x.py
index 1111111..2222222 100644
--- a/pkg/x.py
+++ b/pkg/x.py
@@ -1,4 +1,5 @@
 def close(self):
-    self._transport_handle.abort_everything()
+    for waiting_reader in self._blocked_readers:
+        waiting_reader.wake_with_sentinel(self)
     self._finished = True
     return self._finished
"""


def test_a_patch_is_read_as_hunks() -> None:
    """Paths, blobs, signs and the bytes that the file gains."""
    (file,) = read_patch(PATCH)
    assert (file.path, file.old_blob, file.new_blob) == ("pkg/x.py", "1111111", "2222222")
    assert [sign for sign, _ in file.hunks[0]] == [" ", "-", "+", "+", " ", " "]
    assert file.grown == 49 + 48 - 46


@pytest.mark.parametrize(
    "text", [b"", b"hello\n", b"@@ -1 +1 @@\n-a\n+b\n", PATCH.replace(b"-1,4", b"-1,9"), PATCH[:150]]
)
def test_what_is_no_patch_is_refused_with_its_place(text: bytes) -> None:
    """One clear error, never an empty search."""
    with pytest.raises(Malformed):
        read_patch(text, "f.patch")


def test_pieces_that_the_base_has_are_not_looked_for() -> None:
    """Distinctiveness is measured against the base tree."""
    files = read_patch(PATCH)
    line = b"for waiting_reader in self._blocked_readers:"
    free = wanted_from(files, (), [b"nothing"])
    assert any(f.form == "line" and f.text == line for f in free.fragments)
    known = wanted_from(files, (), [b"x\n    " + line + b"\n"])
    assert not any(f.text == line for f in known.fragments)
    assert known.common_lines == free.common_lines + 1
    assert free.shortest_leak_lines == 1


def test_a_fix_that_only_removes_is_found_by_its_seam() -> None:
    """Lines that become neighbours by a removal are looked for together."""
    only = PATCH.replace(b"+    for waiting_reader in self._blocked_readers:\n", b"")
    only = only.replace(b"+        waiting_reader.wake_with_sentinel(self)\n", b"").replace(
        b"+1,5", b"+1,3"
    )
    wanted = wanted_from(read_patch(only), (), [b"x"])
    assert {f.form for f in wanted.fragments} <= {"seam"}
    assert wanted.shortest_leak_lines == (2 if wanted.fragments else 0)


def test_a_file_is_told_to_be_old_or_new() -> None:
    """By all hunks of the patch, whatever else the file holds."""
    (file,) = read_patch(PATCH)
    sides = [b"\n".join(t for s, t in file.hunks[0] if s != left_out) for left_out in "+-"]
    assert [standing(file, b"# head\n" + side + b"\n# tail") for side in sides] == ["old", "new"]
    assert standing(file, b"something else") == "neither"


def test_a_bomb_is_cut_and_told() -> None:
    """A small file that inflates to gigabytes costs a bounded amount and is reported as cut."""
    bomb = gzip.compress(bytes(PART_LIMIT + 2**20))
    (part,) = parts(bomb)
    assert part.cut
    assert len(part.data) <= PART_LIMIT


@given(st.binary(max_size=400))
def test_unpacking_survives_anything(data: bytes) -> None:
    """Damaged containers of every kind give parts or nothing, never an exception."""
    for head in (
        b"",
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"BZh9",
        b"\xfd7zXZ\x00",
        b"SQLite format 3\x00",
        b"x\x9c",
    ):
        for part in parts(head + data):
            assert isinstance(part.data, bytes)


def _tar(form: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, size in (
            ("a", 0),
            ("b/" + "n" * (90 if form == tarfile.USTAR_FORMAT else 150), 700),
            ("c" * 90 + "/" + "d" * 90, 512),
            ("ü", 3),
        ):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = size, 1_700_000_000
            archive.addfile(info, io.BytesIO(bytes(size)))
        link = tarfile.TarInfo("l")
        link.type = tarfile.SYMTYPE
        link.linkname = "t" * (90 if form == tarfile.USTAR_FORMAT else 120)
        archive.addfile(link)
    return buffer.getvalue()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("step", [1, 511, 10_000])
def test_the_tar_reader_agrees_with_the_standard_library(form: int, step: int) -> None:
    """Names, sizes, times and links of each format, whatever the chunks of the stream."""
    data = _tar(form)
    chunks = iter([data[at : at + step] for at in range(0, len(data), step)])
    found = [
        (m.name, m.kind, m.size, m.link, m.content() if m.size else b"")
        for m in members(ByteReader(chunks))
    ]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        expected = [
            (m.name, "l" if m.issym() else "f", m.size, m.linkname, bytes(m.size)) for m in archive
        ]
    assert found == expected


def test_a_stream_that_is_no_tar_is_an_accident() -> None:
    """A broken stream is about the engine, never a clean image."""
    with pytest.raises(Accident):
        list(members(ByteReader(iter([b"\xff<html>" * 200]))))


def layer(number: int, *entries: tuple[str, str]) -> LayerScan:
    """A layer of some paths, each `name` with a kind."""
    made = [Entry(path, kind, 1, 0, 0o644) for path, kind in entries]
    return LayerScan(digest=f"sha256:{number}", entries=made)


def test_layers_stack_as_the_engine_stacks_them() -> None:
    """Whiteouts, opaque folders and replacements hide what lies below."""
    view = ImageView(
        [
            layer(0, ("/a", "d"), ("/a/x", "f"), ("/b", "d"), ("/b/y", "f"), ("/c", "d"), ("/c/z", "f")),
            layer(1, ("/a/.wh.x", "f"), ("/b/.wh..wh..opq", "f"), ("/b/new", "f"), ("/c", "f")),
        ],
        {},
        "/a",
    )
    assert set(view.final) == {"/a", "/b", "/b/new", "/c"}
    assert view.shown("/c", 1)
    assert not view.shown("/a/x", 0)


def test_links_to_the_work_directory_are_followed() -> None:
    """Also a link in the middle of the path, and no endless loop."""
    scan = layer(0, ("/srv", "d"), ("/srv/repo", "d"))
    scan.entries += [Entry("/t", "l", 0, 0, 0, "srv"), Entry("/l", "l", 0, 0, 0, "/l")]
    view = ImageView([scan], {}, "/t/repo")
    assert view.real("/t/repo") == "/srv/repo"
    assert view.real("/l/x")


def test_a_scan_survives_its_cache(workshop) -> None:
    """What is kept of a layer comes back the same; another format is not read."""
    scanner = LayerScanner(workshop.strict, "/repo")
    for path in (workshop.clean / "repo").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            name = "/" + path.relative_to(workshop.clean).as_posix()
            scanner.add(Entry(name, "f", len(data), 0, 0o644), data)
    scanner.add(Entry("/x", "f", 9, 0, 0o644), b"self._journal_entry(amount, before)\n")
    scan = scanner.finish("sha256:1", 5)
    assert scan.hits
    assert scan.objects
    assert LayerScan.from_json(scan.as_json()) == scan
    assert LayerScan.from_json(scan.as_json() | {"format": -1}) is None


def test_a_large_file_is_searched_across_its_chunks(workshop) -> None:
    """A line that two chunks share is found in a file that is never held whole."""
    scanner = LayerScanner(workshop.strict, "/repo")
    line = b"if amount > before and self._turnstile.locked():"
    pieces = [b"\0" * 70_000 + line[:20], line[20:] + b"\0" * 70_000]
    scanner.add_stream(Entry("/big", "f", 140_048, 0, 0o644), iter(pieces))
    assert [hit.path for hit in scanner.finish("sha256:1", 1).hits] == ["/big"]


OPEN = {
    "dev": "Inter-|\n face |\n    lo: 1\n  eth0: 1\n",
    "route": "Iface\tDest\neth0\t00000000\t010011AC\n",
    "route6": "",
    "address6": "fe80000000000000 02 40 20 80 eth0\n00000000000000000000000000000001 01 80 10 80 lo\n",
    "mountinfo": "1 2 0:1 / / rw - overlay overlay rw\n3 1 8:1 /data /data rw - ext4 /dev/sda rw\n"
    "4 1 8:1 /run/d.sock /var/run/docker.sock rw - tmpfs tmpfs rw\n5 1 0:5 / /proc rw - proc proc rw\n",
    "environment": "PATH=/bin\nHTTP_PROXY=http://10.0.0.1\n",
}


def test_an_open_container_is_seen() -> None:
    """Interface, route, IPv6 address, mounts and proxy are each reported."""
    facts = understood(OPEN)
    assert {key: [item["target"] for item in items] for key, items in facts.items()} == {
        "interfaces": ["eth0"], "routes": ["eth0"], "ipv6": ["eth0"],
        "mounts": ["/data", "/var/run/docker.sock"], "proxy": ["HTTP_PROXY"],
    }  # fmt: skip
    assert from_python(b"no report") is None
    assert from_shell(b"RACE-NEXT".join(OPEN[k].encode() for k in OPEN))["interfaces"]


class Shelf:
    """An engine that has one image, given as the stream of `docker save`."""

    def __init__(self, layers: list[bytes]) -> None:
        self.ids = ["sha256:" + hashlib.sha256(data).hexdigest() for data in layers]
        self.reads = 0
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for number, data in enumerate(layers):
                info = tarfile.TarInfo(f"{number}/layer.tar")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        self.stream = buffer.getvalue()

    def image(self, ref: str) -> Image | None:
        return Image("sha256:" + "0" * 64, (ref,), {}, tuple(self.ids), 1) if ref == "here" else None

    def save(self, ref: str):
        self.reads += 1
        for at in range(0, len(self.stream), 4096):
            yield self.stream[at : at + 4096]


def shelf(workshop, *extra: tuple[str, bytes]) -> Shelf:
    """A shelf with the clean project and a second layer of further files."""
    layers = []
    for files in ([p for p in workshop.clean.rglob("*") if p.is_file()], []):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in files:
                archive.add(path, str(path.relative_to(workshop.clean)))
            for name, data in () if files else extra:
                info = tarfile.TarInfo(name)
                info.size, info.mtime = len(data), 1767225600
                archive.addfile(info, io.BytesIO(data))
        layers.append(buffer.getvalue())
    return Shelf(layers)


def request(workshop, **more) -> AuditRequest:
    """An audit without a container."""
    return AuditRequest(image="here", wanted=workshop.strict, live=False, **more)


def test_layers_seen_before_are_not_read_again(workshop, tmp_path: Path) -> None:
    """A second audit reads nothing and says the same; one of other needles reads anew."""
    engine: Engine = shelf(workshop, ("opt/x", b"self._journal_entry(amount, before)"))  # type: ignore[assignment]
    first = audit_image(engine, request(workshop, cache=tmp_path))
    second = audit_image(engine, request(workshop, cache=tmp_path))
    assert (first.scanned, second.scanned, engine.reads) == (2, 0, 1)  # type: ignore[attr-defined]
    assert first.probes == second.probes
    assert not first.clean
    audit_image(engine, AuditRequest("here", workshop.wanted, live=False, cache=tmp_path))
    assert engine.reads == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        ("await asyncio.gather(*(tally.add(1) for _ in range(40)))", True),
        ("assert tally.count == 40, 'additions of the crowd were lost'", False),
    ],
)
def test_documentation_may_call_the_product_as_tests_do(
    line: str, clean: bool, workshop, tmp_path: Path, in_one_commit
) -> None:
    """Without a base tree, a plain line in a tracked page is innocent; particular words are not."""
    root = workshop.copy(tmp_path / "root")
    shutil.rmtree(root / "repo" / ".git")
    (root / "repo" / "USAGE.md").write_text(f"# Usage\n\n    {line}\n")
    in_one_commit(root / "repo")
    engine: Engine = shelf(replace(workshop, clean=root))  # type: ignore[assignment]
    audit = audit_image(engine, AuditRequest("here", workshop.wanted, live=False))
    assert audit.clean is clean, [(p.name, p.findings) for p in audit.probes if p.findings]


def test_a_fix_that_does_not_fit_the_tree_is_said(workshop) -> None:
    """A patch for another tree: the audit runs, and says for which file it may prove nothing."""
    other = workshop.fix_patch.replace(b"before = self.count", b"earlier = self.total_count")
    wanted = wanted_from(read_patch(other), read_patch(workshop.test_patch))
    audit = audit_image(shelf(workshop), AuditRequest("here", wanted, live=False))  # type: ignore[arg-type]
    (said,) = [why for why in audit.not_checked if "does not fit" in why]
    assert said.startswith(
        "the fix patch does not fit the work tree: src/tallybook/counter.py is neither"
    )


def test_a_stream_that_breaks_off_is_an_accident(workshop) -> None:
    """Half an image is never called clean."""
    engine = shelf(workshop)
    engine.stream = engine.stream[: len(engine.stream) // 3]
    with pytest.raises(Accident):
        audit_image(engine, request(workshop))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--fix-patch", "missing.patch"], 2, "there is no such file"),
        (["--fix-patch", "empty.patch"], 2, "no unified diff"),
        ([], 2, "--fix-patch"),
    ],
)
def test_bad_input_is_one_line(arguments, code, said, tmp_path, monkeypatch, capsys) -> None:
    """A missing or empty patch is named, with the documented exit code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.patch").write_bytes(b"")
    assert run(["audit", "some:image", *arguments]) == code
    assert said in capsys.readouterr().err


@pytest.mark.engine
def test_the_audit_command_on_a_real_image(workshop, engine, tar_of, names, tmp_path, capsys) -> None:
    """Exit 1 with findings, 2 for a work directory that is not there, 3 for an image that is not."""
    root = workshop.copy(tmp_path / "root")
    (root / "hint").write_text("if amount > before and self._turnstile.locked():\n")
    (tmp_path / "fix.patch").write_bytes(workshop.fix_patch)
    tag = f"{names}:command"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), tag)
    patch = ["--fix-patch", str(tmp_path / "fix.patch")]
    try:
        assert run(["audit", tag, *patch, "--json"]) == 1
        assert '"path": "/hint"' in capsys.readouterr().out
        assert run(["audit", tag, *patch, "--workdir", "/nowhere"]) == 2
        assert "no folder /nowhere" in capsys.readouterr().err
    finally:
        engine.remove_image(tag)
    assert run(["audit", tag, *patch]) == 3
