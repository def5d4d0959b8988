"""The leak audit of one image: its layers as a stream, cached by digest, then every probe.

The engine's `save` stream is read once: each layer is hashed, taken apart and searched as it goes
by. What a layer gave is kept in the workspace's cache under what was looked for, so that layers seen
before are not searched again; when all are known the image is not even read.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from race.core.leaks.fragments import Wanted
from race.core.leaks.judge import Judge, standing
from race.core.leaks.kinds import NOT_OPENED, RANDOM
from race.core.leaks.layers import FORMAT, Entry, ImageView, LayerScan
from race.core.leaks.probes import counts, run_probes
from race.core.leaks.probing import Subject
from race.core.leaks.scanner import WHOLE_LIMIT
from race.core.leaks.tarstream import BLOCK, ByteReader, members
from race.core.records import digest, sha256
from race.core.sealed import FragmentCounts, ProbeResult
from race.errors import Accident, Missing, UsageError
from race.ports import Engine, Image
from race.work.byte_streams import chained, layer_unpacker, read_ahead
from race.work.layer_search import LayerSearch, Search, searching
from race.work.live_probes import live_facts
from race.work.scan_cache import ScanCache

JSON_LIMIT = 8 * 2**20
MANY_BYTES = 150 * 2**20
"""From this size of an image on, worker processes are started before its stream begins."""


@dataclass(frozen=True)
class Audit:
    """An audited image: every probe's result, what was looked for, what was not looked at and why."""

    image: str
    image_id: str
    layers: tuple[str, ...]
    size: int
    fragments: FragmentCounts
    probes: tuple[ProbeResult, ...]
    not_checked: tuple[str, ...]
    seconds: float
    scanned: int
    """Layers that had to be read; the others were known."""

    @property
    def clean(self) -> bool:
        """Whether no probe found anything."""
        return not any(probe.findings for probe in self.probes)

    def as_json(self) -> dict[str, Any]:
        """The document that `race audit --json` prints."""
        return {
            "image": self.image,
            "image_id": self.image_id,
            "clean": self.clean,
            "layers": list(self.layers),
            "size": self.size,
            "fragments": self.fragments.model_dump(mode="json"),
            "probes": [probe.model_dump(mode="json") for probe in self.probes],
            "not_checked": list(self.not_checked),
            "not_opened": list(NOT_OPENED),
        }


@dataclass(frozen=True)
class AuditRequest:
    """What to audit and how. `cache` None keeps nothing; the rest is as in `Subject`."""

    image: str
    wanted: Wanted
    workdir: str = "/repo"
    cache: Path | None = None
    live: bool = True
    commits: Sequence[str] = ()
    numbers: Sequence[str] = ()
    allowed: Sequence[str] = ()
    hidden_tests_belong: bool = False
    say: Callable[[str], None] = field(default=lambda _: None)

    @property
    def key(self) -> str:
        """Digest of all that decides what a layer's scan keeps."""
        wanted = self.wanted
        return digest(
            {
                "format": FORMAT,
                "workdir": self.workdir,
                "needles": sha256(b"\0".join(f.needle for f in wanted.fragments)),
                "texts": sha256(b"\0".join(f.text for f in wanted.fragments)),
                "paths": sorted(wanted.product_paths | wanted.test_paths),
                "names": sorted(n.decode("latin-1") for n in wanted.identifiers),
            }
        )


def audit_image(engine: Engine, request: AuditRequest) -> Audit:
    """Audit an image of this engine. Raises Missing when there is none of that name."""
    started = time.monotonic()
    image = engine.image(request.image)
    if image is None:
        raise Missing(f"there is no image {request.image} on this engine; build or pull it first")
    layers, config, scanned = _scans(engine, image, request)
    view = ImageView(layers, config | {"tags": list(image.tags)}, request.workdir)
    real = view.real(view.workdir)
    if real != view.workdir:
        return audit_image(engine, replace(request, workdir=real))
    if view.workdir not in view.final and not any(view.below(path) for path in view.final):
        raise UsageError(f"{request.image} has no folder {view.workdir}; say where the repository lies")
    live, why = None, "not asked for"
    if request.live:
        request.say("probing a running container")
        live, why = live_facts(engine, image, view)
    subject = Subject(
        view=view,
        wanted=request.wanted,
        leaks=Judge(view, request.wanted).leaks(),
        live=live,
        live_why=why,
        commits=request.commits,
        numbers=request.numbers,
        allowed=request.allowed,
        hidden_tests_belong=request.hidden_tests_belong,
    )
    probes = run_probes(subject)
    return Audit(
        image=request.image,
        image_id=image.id,
        layers=image.layers,
        size=image.size,
        fragments=counts(request.wanted),
        probes=probes,
        not_checked=tuple(_not_checked(view, request.wanted, probes)),
        seconds=time.monotonic() - started,
        scanned=scanned,
    )


def _not_checked(view: ImageView, wanted: Wanted, probes: Sequence[ProbeResult]) -> Iterator[str]:
    for probe in probes:
        if not probe.checked:
            yield f"{probe.name}: {probe.why}"
    seen: set[tuple[str, str]] = set()
    known = Judge(view, wanted)
    for number, layer in enumerate(view.layers):
        for path, why in layer.unread:
            if why == RANDOM and known.listed(path, number):
                continue
            if (path, why) not in seen:
                seen.add((path, why))
                yield f"{path}: {why}"
    strangers = sorted(_strangers(view, wanted))
    if strangers:
        yield (
            f"the fix patch does not fit the work tree: {', '.join(strangers[:5])}"
            f"{' and more' * (len(strangers) > 5)} is neither as before nor as after it"
        )
    if wanted.common_lines:
        yield (
            f"{wanted.common_lines} line{'s' * (wanted.common_lines > 1)} of fix and hidden tests also "
            "stand in the base tree or on the patch's old side: too common to look for"
        )
    if not wanted.base_known:
        yield (
            "no base tree was given: a few lines of the fix in a tracked module that it does not touch "
            "are taken for the project's own idiom"
        )


def _strangers(view: ImageView, wanted: Wanted) -> Iterator[str]:
    """Files of the fix that the work tree does not have in any state that the patch knows."""
    for file in wanted.fix_files:
        text = view.text(f"{view.workdir}/{file.path}")
        if file.added or not file.hunks:
            continue
        if text is None or standing(file, text.encode("latin-1")) == "neither":
            yield file.path


def _scans(
    engine: Engine, image: Image, request: AuditRequest
) -> tuple[list[LayerScan], dict[str, Any], int]:
    """The scans of all layers, base first, the image's configuration, and how many were read."""
    cache = ScanCache(request.cache, request.key)
    known = {layer: scan for layer in image.layers if (scan := cache.layer(layer)) is not None}
    config = cache.config(image.id)
    scanned = 0
    if config is None or any(layer not in known for layer in image.layers):
        request.say("reading the image's layers")
        sizes = {scan.size for scan in known.values()}
        found, config = _read_image(engine, image, request, sizes)
        if any(layer not in known and layer not in found for layer in image.layers):
            found, config = _read_image(engine, image, request, set())
        for scan in found.values():
            cache.keep_layer(scan)
        cache.keep_config(image.id, config)
        scanned = len(found)
        known = found | known
    missing = [layer for layer in image.layers if layer not in known]
    if missing:
        raise Accident(f"{request.image}: the engine's stream does not hold layer {missing[0]}")
    return [known[layer] for layer in image.layers], config, scanned


def _read_image(
    engine: Engine, image: Image, request: AuditRequest, known_sizes: set[int]
) -> tuple[dict[str, LayerScan], dict[str, Any]]:
    """Layers by diff id and the configuration, from one pass over the stream.

    A layer of a size that a known layer has is only hashed: it is most likely that one. When it was
    not, the caller reads once more without known sizes.
    """
    with searching(request.wanted, request.workdir) as search:
        if not known_sizes and image.size > MANY_BYTES:
            search.start()
        found, documents = _read_stream(engine.save(image.id), request, search, known_sizes)
    wanted = list(image.layers)
    config = next(
        (d for d in documents.values() if (d.get("rootfs") or {}).get("diff_ids") == wanted),
        {"config": dict(image.config)},
    )
    return found, config


def _read_stream(
    stream: Iterator[bytes], request: AuditRequest, search: Search, known_sizes: set[int]
) -> tuple[dict[str, LayerScan], dict[str, dict[str, Any]]]:
    """Layers by diff id and JSON documents by name, of an engine's `save` stream."""
    found: dict[str, LayerScan] = {}
    documents: dict[str, dict[str, Any]] = {}
    outer = ByteReader(read_ahead(stream))
    for member in members(outer):
        if member.kind != "f" or not member.size:
            continue
        pieces = member.pieces()
        head = next(pieces, b"")
        chunks = chained(head, pieces)
        if head[:1] in b"{[" and member.size <= JSON_LIMIT:
            _note_document(documents, member.name, b"".join(chunks))
        elif (unpack := layer_unpacker(head)) is not None:
            scan = _scan_layer(unpack(chunks), request, search)
            found[scan.digest] = scan
        elif head[257:262] == b"ustar" or not head[:BLOCK].strip(b"\0"):
            if member.size in known_sizes:
                for _ in chunks:
                    pass
            else:
                scan = _scan_layer(chunks, request, search)
                found[scan.digest] = scan
                request.say(f"searched a layer of {scan.size / 2**20:.0f} MiB")
        for _ in chunks:
            pass
    outer.rest()
    return found, documents


def _note_document(documents: dict[str, dict[str, Any]], name: str, data: bytes) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict) and "rootfs" in value:
        documents[name] = value


def _scan_layer(chunks: Iterator[bytes], request: AuditRequest, search: Search) -> LayerScan:
    hasher, size = hashlib.sha256(), 0

    def seen(chunk: bytes) -> None:
        nonlocal size
        hasher.update(chunk)
        size += len(chunk)

    reader = ByteReader(chunks, seen)
    scanner = LayerSearch(search)
    for member in members(reader):
        path = "/" + member.name.removeprefix("./").strip("/")
        entry = Entry(path, member.kind, member.size, member.mtime, member.mode, member.link)
        if member.kind != "f":
            scanner.add(entry, None, member.attributes)
        elif member.size <= WHOLE_LIMIT:
            scanner.add(entry, member.content(), member.attributes)
        else:
            scanner.add_stream(entry, member.pieces())
    reader.rest()
    return scanner.finish(f"sha256:{hasher.hexdigest()}", size)
