"""The images that every task image starts from: what they hold, and making them when they are not there.

A pair per Python: `race-base:py3.11` runs tasks (Python, git, patch, procps, coreutils, the user
`agent`), `race-builder:py3.11` adds pip, venv and compilers and only ever builds. They come from the
official slim images when a registry answers, else from Debian's packages.
"""

from __future__ import annotations

import fcntl
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from race.core.records import digest
from race.errors import Missing, Unreachable
from race.render import data_folder, render
from race.workbench import Workbench

RECIPE = "race.recipe"
TIMEOUT = 1200.0


@dataclass(frozen=True)
class BaseImages:
    """References of one pair. `python` is major.minor, `extra` are a project's system packages."""

    python: str
    runtime: str
    builder: str
    extra: tuple[str, ...] = ()


def _recipe() -> dict[str, Any]:
    return tomllib.loads((data_folder("images") / "base" / "base.toml").read_text())


def pythons() -> list[str]:
    """The Pythons that a base image can be made for, oldest first."""
    return sorted(_recipe()["python"], key=lambda version: [int(part) for part in version.split(".")])


def base_names(python: str, extra: Sequence[str] = ()) -> BaseImages:
    """The names of a pair, made or not. Raises Missing for a Python that has none.

    A pair with a project's system packages in both images has names of its own.
    """
    if python not in _recipe()["python"]:
        raise Missing(f"there is no base image for Python {python}; there are {', '.join(pythons())}")
    more = tuple(sorted(set(extra)))
    suffix = f"py{python}-{digest(more)[:12]}" if more else f"py{python}"
    return BaseImages(python, f"race-base:{suffix}", f"race-builder:{suffix}", more)


def base_recipe(python: str, kind: str, extra: Sequence[str] = ()) -> str:
    """Digest of all that decides what a base image holds. `kind` is runtime or builder."""
    recipe = _recipe()
    return digest([recipe["python"][python], _packages(recipe, kind, extra), recipe["excluded"], 1])


def _packages(recipe: dict[str, Any], kind: str, extra: Sequence[str]) -> list[str]:
    both: list[str] = [*recipe["packages"]["runtime"], *extra]
    return both + recipe["packages"]["builder"] if kind == "builder" else both


def missing_bases(bench: Workbench, python: str, extra: Sequence[str] = ()) -> list[str]:
    """The names of a pair that this engine does not have, or has from another recipe."""
    return [ref for _, ref in _missing(bench, base_names(python, extra))]


def _missing(bench: Workbench, names: BaseImages) -> list[tuple[str, str]]:
    found = []
    for kind, ref in (("runtime", names.runtime), ("builder", names.builder)):
        image = bench.engine.image(ref)
        wanted = base_recipe(names.python, kind, names.extra)
        if image is None or image.labels.get(RECIPE) != wanted:
            found.append((kind, ref))
    return found


def ensure_base(
    bench: Workbench,
    python: str,
    extra: Sequence[str] = (),
    *,
    say: Callable[[str], None] = lambda line: None,
) -> BaseImages:
    """A pair of base images, with a project's system packages when it needs some; made when missing.

    Raises Missing when this host cannot make it, Unreachable when neither a registry nor a Debian
    mirror answers.
    """
    names = base_names(python, extra)
    if _missing(bench, names):
        with one_at_a_time(bench.workspace.cache_dir / "base.lock"):
            for kind, ref in _missing(bench, names):
                _make(bench, names, kind, ref, say)
    return names


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock file, so that what several commands or threads need is made once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(bench: Workbench, names: BaseImages, kind: str, ref: str, say: Callable[[str], None]) -> None:
    recipe, python = _recipe(), names.python
    packages, suite = _packages(recipe, kind, names.extra), recipe["python"][python]["suite"]
    labels = {RECIPE: base_recipe(python, kind, names.extra), "race.base": python}
    if bench.workspace.registry_pull:
        official = recipe["python"][python]["official"]
        try:
            bench.engine.pull(official)
        except (Unreachable, Missing):
            say(f"no registry answers; making {ref} from Debian's packages ({suite})")
        else:
            say(f"making {ref} from {official}")
            extra = [name for name in packages if not name.startswith("python")]
            text = render("images", "base/official.Dockerfile.j2", official=official, packages=extra)
            bench.engine.build(
                {"Dockerfile": text.encode()}, tag=ref, labels=labels, network=True, timeout=TIMEOUT
            )
            return
    else:
        say(f"making {ref} from Debian's packages ({suite})")
    with tempfile.TemporaryDirectory(prefix="race-base-") as folder:
        tar = Path(folder) / "rootfs.tar"
        bench.rootfs.make(suite, packages, recipe["excluded"]["paths"], tar, TIMEOUT)
        changes = [f"LABEL {name}={value}" for name, value in labels.items()]
        bench.engine.import_image(tar, ref, changes=[*changes, "ENV LANG=C.UTF-8", 'CMD ["bash"]'])
