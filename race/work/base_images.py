"""The images that every task image starts from: what they hold, and making them when they are not there.

A pair per Python: `race-base:py3.11` runs tasks (Python, git, patch, procps, coreutils, the user
`agent`), `race-builder:py3.11` adds pip, venv and compilers and only ever builds. Both come from the
official slim image, by its digest, when a registry has it, else both from Debian's packages. The recipe
is the same either way, so that records do not tell machines apart; which way it was is the images'
label `race.base.origin`, which all images made from them carry too.
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

from race.core.records import digest, sha256
from race.errors import BuildFailed, Missing, Unreachable
from race.ports import Image
from race.render import data_folder, render
from race.settings import Workspace
from race.workbench import Workbench

RECIPE, ORIGIN = "race.recipe", "race.base.origin"
TEMPLATE = "base/official.Dockerfile.j2"
TIMEOUT = 1200.0
Say = Callable[[str], None]


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
    template = sha256((data_folder("images") / TEMPLATE).read_bytes())
    return digest(
        [recipe["python"][python], _packages(recipe, kind, extra), recipe["excluded"], template, 2]
    )


def _packages(recipe: dict[str, Any], kind: str, extra: Sequence[str]) -> list[str]:
    both: list[str] = [*recipe["packages"]["runtime"], *extra]
    return both + recipe["packages"]["builder"] if kind == "builder" else both


def official_image(workspace: Workspace, python: str) -> str:
    """The reference by digest that a pair is made from when a registry has it; empty for none.

    It is what race pins, from the registry that the workspace names, or the workspace's own choice.
    """
    if not workspace.registry_pull:
        return ""
    pinned = str(_recipe()["python"][python]["official"])
    prefix = workspace.registry.rstrip("/")
    return workspace.base_images.get(python) or (f"{prefix}/{pinned}" if prefix else pinned)


def origin_of(bench: Workbench, names: BaseImages) -> str:
    """What a pair was made from, for a person; empty when it is not there."""
    image = bench.engine.image(names.runtime)
    return "" if image is None else image.labels.get(ORIGIN, "")


def missing_bases(bench: Workbench, python: str, extra: Sequence[str] = ()) -> list[str]:
    """The names of a pair that this engine does not have, or has from another recipe or origin."""
    return [ref for _, ref in _missing(bench, base_names(python, extra))]


def _missing(bench: Workbench, names: BaseImages) -> list[tuple[str, str]]:
    """What has to be made. A venv made on one origin does not run on another, so a pair shares one.

    A pair from Debian's packages is good also where a registry would have the official image by now.
    """
    found = {}
    pair = (("runtime", names.runtime), ("builder", names.builder))
    for kind, ref in pair:
        image = bench.engine.image(ref)
        if image is not None and image.labels.get(RECIPE) == base_recipe(
            names.python, kind, names.extra
        ):
            found[ref] = image.labels.get(ORIGIN, "")
    wanted = _named(official_image(bench.workspace, names.python))
    other = any("@" in origin and wanted and origin != wanted for origin in found.values())
    if other or len(set(found.values())) > 1:
        return list(pair)
    return [(kind, ref) for kind, ref in pair if ref not in found]


def _named(official: str) -> str:
    """A reference without its registry: what it is and not where it came from, for a label."""
    return official.rpartition("/")[2]


def ensure_base(
    bench: Workbench, python: str, extra: Sequence[str] = (), *, say: Say = lambda line: None
) -> BaseImages:
    """A pair of base images, with a project's system packages when it needs some; made when missing.

    Raises Missing when this host cannot make it, Unreachable when neither a registry nor a Debian
    mirror answers.
    """
    names = base_names(python, extra)
    if _missing(bench, names):
        with one_at_a_time(bench.workspace.cache_dir / "base.lock"):
            missing = _missing(bench, names)
            if missing and not _from_official(bench, names, say):
                _from_debian(bench, names, say)
    return names


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock file, so that what several commands or threads need is made once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _todo(bench: Workbench, names: BaseImages, origin: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, kind and labels of each image of a pair that is not there from this origin."""
    for kind, ref in (("runtime", names.runtime), ("builder", names.builder)):
        wanted = base_recipe(names.python, kind, names.extra)
        have: Image | None = bench.engine.image(ref)
        if have is None or (have.labels.get(RECIPE), have.labels.get(ORIGIN)) != (wanted, origin):
            yield kind, ref, {RECIPE: wanted, "race.base": names.python, ORIGIN: origin}


def _from_official(bench: Workbench, names: BaseImages, say: Say) -> bool:
    """Make a pair from the official image; False, and one line on why not, when that cannot be."""
    official = official_image(bench.workspace, names.python)
    if not official:
        return False
    try:
        bench.engine.pull(official)
        for kind, ref, labels in _todo(bench, names, _named(official)):
            say(f"making {ref} from {official}")
            packages = _packages(_recipe(), kind, names.extra)
            text = render(
                "images",
                TEMPLATE,
                official=official,
                python=names.python,
                packages=[name for name in packages if not name.startswith("python")],
            )
            bench.engine.build(
                {"Dockerfile": text.encode()}, tag=ref, labels=labels, network=True, timeout=TIMEOUT
            )
    except Unreachable as error:
        say(f"no registry answers for {_named(official)} ({_short(error)})")
    except Missing as error:
        say(f"the registry does not have {_named(official)} ({_short(error)})")
    except BuildFailed as error:
        last = (error.tail.strip().splitlines() or [str(error)])[-1]
        say(f"no base image can be made from {_named(official)}: {error.step[:80]}: {last[:120]}")
    else:
        return True
    return False


def _short(error: Exception) -> str:
    return str(error).rpartition("@sha256:")[2].partition(": ")[2][:160] or str(error)[:160]


def _from_debian(bench: Workbench, names: BaseImages, say: Say) -> None:
    recipe = _recipe()
    suite = recipe["python"][names.python]["suite"]
    for kind, ref, labels in _todo(bench, names, f"Debian {suite} packages"):
        say(f"making {ref} from Debian's packages ({suite})")
        packages = _packages(recipe, kind, names.extra)
        with tempfile.TemporaryDirectory(prefix="race-base-") as folder:
            tar = Path(folder) / "rootfs.tar"
            bench.rootfs.make(suite, packages, recipe["excluded"]["paths"], tar, TIMEOUT)
            changes = [f'LABEL {name}="{value}"' for name, value in labels.items()]
            bench.engine.import_image(tar, ref, changes=[*changes, "ENV LANG=C.UTF-8", 'CMD ["bash"]'])
