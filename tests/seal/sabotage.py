"""What the batteries of sabotaged images share: the fixed tree, ways to spoil, the audit."""

from __future__ import annotations

import base64
import compileall
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from race.ports import Engine
from race.work.leak_scan import Audit, AuditRequest, audit_image

Sabotage = Callable[[Path, "Kit"], None]
Sabotages = dict[str, tuple[str, str, Sabotage]]
"""Name of a way to spoil an image -> the probe that must see it, the place, and how."""

FIX_LINE = "if amount > before and self._turnstile.locked():"
NAME = "test_concurrent_additions_are_kept"
SITE = "usr/lib/python3/dist-packages"


class Kit:
    """What a sabotage needs: the fixed tree's files, git, and how to write."""

    def __init__(self, base: dict[str, str], fixed: dict[str, str], hidden: dict[str, str], git, write):
        self.base, self.fixed, self.hidden = base, fixed, hidden
        self.git: Callable[..., str] = git
        self.write: Callable[[Path, dict[str, str]], None] = write

    @property
    def counter(self) -> str:
        return self.fixed["src/tallybook/counter.py"]

    def commit_fix(self, repo: Path, *, back: bool = True) -> str:
        """Commit the fix on the branch; the id. `back` resets the branch to the base."""
        base = self.git(repo, "rev-parse", "HEAD").strip()
        self.write(repo, self.fixed)
        self.git(repo, "commit", "-qam", "Keep additions of several tasks")
        fixed = self.git(repo, "rev-parse", "HEAD").strip()
        if back:
            self.git(repo, "reset", "-q", "--hard", base)
        return fixed


def registering(known: Sabotages) -> Callable[[str, str, str], Callable[[Sabotage], Sabotage]]:
    """A decorator that adds a way to spoil an image, the probe that must see it, and where."""

    def sabotage(name: str, probe: str, place: str) -> Callable[[Sabotage], Sabotage]:
        def register(function: Sabotage) -> Sabotage:
            known[name] = (probe, place, function)
            return function

        return register

    return sabotage


def drop(path: str, text: str | bytes) -> Sabotage:
    """A sabotage that only adds a file."""

    def spoil(root: Path, kit: Kit) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())

    return spoil


def fresh(repo: Path, kit: Kit) -> None:
    """The folder as one commit of a fresh repository."""
    kit.git(repo, "init", "-q", "-b", "main")
    kit.git(repo, "config", "core.logAllRefUpdates", "false")
    kit.git(repo, "add", "-A")
    kit.git(repo, "commit", "-qm", "base")


def recorded(root: Path, name: str, files: dict[str, str]) -> None:
    """A distribution's RECORD of some files."""
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    folder = root / SITE / f"{name}.dist-info"
    folder.mkdir(parents=True)
    (folder / "RECORD").write_text("\n".join(lines) + "\n")


def zipped(files: dict[str, str]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tarred(files: dict[str, str], mode: str = "w:gz") -> bytes:
    """A tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def compiled(folder: Path) -> None:
    """Byte-code of all modules of a folder."""
    assert compileall.compile_dir(folder, quiet=1, force=True)


def nested(data: bytes) -> bytes:
    """A wheel's bytes in a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("w.whl")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def audited(engine: Engine, root: Path, workshop, tar_of, tmp_path: Path, name: str, **more) -> Audit:
    """The audit of a folder as an image of this engine."""
    tag = f"{name}:{abs(hash(str(tmp_path))) % 10**9}"
    engine.import_image(tar_of(root, tmp_path / "root.tar"), tag, changes=more.pop("changes", ()))
    try:
        return audit_image(
            engine, AuditRequest(image=tag, wanted=workshop.strict, live=False, numbers=("7",), **more)
        )
    finally:
        engine.remove_image(tag)


def check(sabotage: tuple[str, str, Sabotage], kit: Kit, workshop, engine: Engine, tar_of,
          names: str, tmp_path: Path) -> None:  # fmt: skip
    """A sabotaged image fails the probe named for its kind, with the place of the leak."""
    probe, place, spoil = sabotage
    root = workshop.copy(tmp_path / "root")
    spoil(root, kit)
    audit = audited(engine, root, workshop, tar_of, tmp_path, names)
    assert not audit.clean
    result = next(p for p in audit.probes if p.name == probe)
    assert any(f.path.startswith(place) for f in result.findings), [
        (p.name, f.path, f.what) for p in audit.probes for f in p.findings
    ]
