"""Asks a project's build back-end for its metadata, in a container without network."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence

from race.core.environment.declared import Declared
from race.core.environment.metadata import read_metadata
from race.errors import BuildFailed
from race.ports import ContainerSpec, Limits
from race.render import data_folder
from race.work.base_images import BaseImages
from race.workbench import Workbench

HOME = "/home/agent"
TIMEOUT = 180.0
LIMITS = Limits(memory_mb=2048, cpus=2.0, pids=512)


def ask_back_end(
    bench: Workbench,
    base: BaseImages,
    build_lock: str,
    source: bytes,
    variables: Mapping[str, str],
    say: Callable[[str], None],
) -> Declared:
    """The project's core metadata as its back-end writes it. Raises BuildFailed when it cannot."""
    wheels = bench.resolver.fetch(build_lock, python=base.python)
    say("asking the build back-end for the requirements")
    scripts = data_folder("images") / "env"
    files = {f"build/wheels/{name}": path.read_bytes() for name, path in wheels.items()}
    files |= {f"build/{name}": (scripts / name).read_bytes() for name in ("unpack.sh", "editable.py")}
    files |= {"build/build.lock": build_lock.encode(), "build/wheels/.keep": b""}
    spec = ContainerSpec(
        image=base.builder, user="agent", workdir=HOME, limits=LIMITS, lifetime=4 * TIMEOUT,
        env={"HOME": HOME, "PYTHONDONTWRITEBYTECODE": "1", **variables},
    )  # fmt: skip
    with bench.engine.container(spec) as container:
        container.put(HOME, files, uid=1000)
        container.put_tar(HOME, owned(source, "repo", 1000))
        steps: list[Sequence[str]] = [
            ["sh", "build/unpack.sh", f"{HOME}/venv", "build/wheels", "build/build.lock"],
            [f"{HOME}/venv/bin/python", "build/editable.py", "metadata", f"{HOME}/repo", f"{HOME}/out"],
        ]
        for step in steps:
            done = container.run(step, timeout=TIMEOUT)
            if done.exit_code != 0:
                tail = done.output.decode("utf-8", "replace")[-4000:]
                raise BuildFailed("asking the build back-end for metadata", done.exit_code, tail)
        text = container.get(f"{HOME}/out/METADATA")
    if text is None:
        raise BuildFailed("asking the build back-end for metadata", None, "it wrote none")
    return read_metadata(text.decode("utf-8", "replace"))


def owned(source: bytes, folder: str, uid: int) -> bytes:
    """A tar archive again, below a folder and with another owner."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(source)) as archive,
        tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as other,
    ):
        top = tarfile.TarInfo(folder)
        top.type, top.mode, top.uid, top.gid = tarfile.DIRTYPE, 0o755, uid, uid
        other.addfile(top)
        made = {folder}
        for member in archive:
            member.name = f"{folder}/{member.name.removeprefix('./')}"
            member.uid = member.gid = uid
            member.uname = member.gname = ""
            parts = member.name.split("/")
            for depth in range(2, len(parts)):
                above = "/".join(parts[:depth])
                if above not in made:
                    made.add(above)
                    entry = tarfile.TarInfo(above)
                    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, uid, uid
                    other.addfile(entry)
            other.addfile(member, archive.extractfile(member) if member.isreg() else None)
    return out.getvalue()
