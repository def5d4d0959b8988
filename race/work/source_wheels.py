"""Wheels from source archives, made in a container without network when an index has no wheel."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from race.core.environment.declared import declared
from race.core.environment.plan import build_requirements
from race.errors import BuildFailed, Unresolvable
from race.ports import ContainerSpec, Limits
from race.render import data_folder
from race.work.base_images import BaseImages
from race.workbench import Workbench

HOME = "/home/agent"
TIMEOUT = 600.0
LIMITS = Limits(memory_mb=4096, cpus=2.0, pids=1024)
EPOCH = "946684800"


def wheel_from_source(
    bench: Workbench,
    base: BaseImages,
    digest: str,
    archive: Path,
    cutoff: datetime,
    say: Callable[[str], None],
) -> Path:
    """The wheel of a source archive; its build requirements are those of the cut-off.

    Made once for each archive, Python and cut-off date. Raises BuildFailed or Unresolvable.
    """
    folder = bench.workspace.cache_dir / "built" / base.python / f"{cutoff:%Y%m%d}" / digest
    have = sorted(folder.glob("*.whl"))
    if have:
        return have[0]
    say(f"building {archive.name}")
    tree = _unpacked(archive)
    name, wheel = _build(bench, base, archive.name, tree, cutoff)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as stream:
        stream.write(wheel)
    os.replace(stream.name, folder / name)
    return folder / name


def _unpacked(archive: Path) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Regular files of an sdist without its top folder. Nothing is written anywhere."""
    found: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    try:
        with tarfile.open(archive) as source:
            for member in source:
                _, _, path = member.name.removeprefix("./").partition("/")
                stream = source.extractfile(member) if member.isreg() else None
                if path and stream is not None and ".." not in path.split("/"):
                    found[path] = (member, stream.read())
    except tarfile.TarError as error:
        raise BuildFailed(f"unpacking {archive.name}", None, str(error)) from error
    return found


def _build(
    bench: Workbench,
    base: BaseImages,
    what: str,
    tree: dict[str, tuple[tarfile.TarInfo, bytes]],
    cutoff: datetime,
) -> tuple[str, bytes]:
    project = declared({path: data for path, (_, data) in tree.items() if "/" not in path})
    wanted = build_requirements(project) or ("setuptools", "wheel")
    try:
        lock = bench.resolver.compile(wanted, python=base.python, cutoff=cutoff)
    except Unresolvable as error:
        raise BuildFailed(f"building {what}", None, f"its build requirements: {error.reason}") from error
    scripts = data_folder("images") / "env"
    files = {f"build/{name}": (scripts / name).read_bytes() for name in ("unpack.sh", "editable.py")}
    for name, path in bench.resolver.fetch(lock, python=base.python).items():
        files[f"build/wheels/{name}"] = path.read_bytes()
    files |= {"build/build.lock": lock.encode(), "build/wheels/.keep": b""}
    spec = ContainerSpec(
        image=base.builder, user="agent", workdir=HOME, limits=LIMITS, lifetime=3 * TIMEOUT,
        env={"HOME": HOME, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    with bench.engine.container(spec) as container:
        container.put(HOME, files, uid=1000)
        container.put_tar(HOME, _tar(tree))
        for step in (
            ["sh", "build/unpack.sh", f"{HOME}/venv", "build/wheels", "build/build.lock"],
            [f"{HOME}/venv/bin/python", "build/editable.py", "wheel", f"{HOME}/source", f"{HOME}/out"],
        ):
            done = container.run(step, timeout=TIMEOUT)
            if done.exit_code != 0:
                tail = done.output.decode("utf-8", "replace")[-4000:]
                raise BuildFailed(f"building {what}", done.exit_code, tail)
        name = (container.get(f"{HOME}/out/name") or b"").decode()
        wheel = container.get(f"{HOME}/out/wheels/{name}", limit=512 * 2**20)
    if wheel is None or "/" in name or not name.endswith(".whl"):
        raise BuildFailed(f"building {what}", None, "its back-end wrote no wheel")
    return name, wheel


def _tar(tree: dict[str, tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    folders: set[str] = set()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(tree):
            member, data = tree[path]
            parts = ["source", *path.split("/")]
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    above = tarfile.TarInfo(folder)
                    above.type, above.mode, above.uid, above.gid = tarfile.DIRTYPE, 0o755, 1000, 1000
                    tar.addfile(above)
            entry = tarfile.TarInfo("/".join(parts))
            entry.size, entry.mode, entry.mtime = len(data), 0o644 | (member.mode & 0o111), int(EPOCH)
            entry.uid = entry.gid = 1000
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()
