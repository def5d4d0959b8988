"""Small images as streams of an engine, and the audit of them."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from race.ports import Image
from race.work.leak_scan import Audit, AuditRequest, audit_image

LINE = "if amount > before and self._turnstile.locked():"
NAME = "test_concurrent_additions_are_kept"
SITE = "usr/lib/python3/dist-packages"
COMMIT = "f8b9f011e548c2c1" * 2 + "f8b9f011"
ZERO = "0" * 40
Files = Mapping[str, bytes]


def packed(root: Path, form: int = tarfile.GNU_FORMAT) -> bytes:
    """A folder as a layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for path in sorted(root.rglob("*")):
            archive.add(path, str(path.relative_to(root)), recursive=False)
    return buffer.getvalue()


class Saved:
    """An engine with one image, as the stream of `docker save`."""

    def __init__(self, layers: list[bytes], config: Mapping[str, Any]) -> None:
        self.ids = tuple("sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers)
        document = {"config": {}, **config, "rootfs": {"type": "layers", "diff_ids": list(self.ids)}}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, data in (
                *((f"{number}/layer.tar", layer) for number, layer in enumerate(layers)),
                ("config.json", json.dumps(document).encode()),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        self.stream = buffer.getvalue()

    def image(self, ref: str) -> Image:
        return Image("sha256:" + "0" * 64, ("x:1",), {}, self.ids, 1)

    def save(self, ref: str):
        yield self.stream


def audit(workshop, layers: list[bytes], config: Mapping[str, Any] | None = None, **more) -> Audit:
    """An audit without an engine and without the base tree, as of a stranger's image."""
    wanted = more.pop("wanted", workshop.wanted)
    request = AuditRequest(image="x", wanted=wanted, live=False, numbers=("7",), **more)
    return audit_image(Saved(layers, config or {}), request)  # type: ignore[arg-type]


def found(told: Audit, probe: str) -> list[str]:
    """Places of one probe's findings."""
    return [f.path for p in told.probes if p.name == probe for f in p.findings]


def with_files(workshop, root: Path, files: Files) -> Path:
    """The clean file system with further files."""
    workshop.copy(root)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


G = "repo/.git"


def one_commit(root: Path) -> None:
    """Make the repository one commit of what it holds now."""
    shutil.rmtree(root / G)
    said = {"user.name": "a", "user.email": "a@b.invalid", "core.logAllRefUpdates": "false"}
    settings = [word for name, value in said.items() for word in ("-c", f"{name}={value}")]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "b"]):
        subprocess.run(["git", *settings, *words], cwd=root / "repo", check=True)
