"""The two images below a task: dependencies (shared by lock), and the repository on top."""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from race.core.records import digest, sha256
from race.ports import Image
from race.render import data_folder, render
from race.work.base_images import ORIGIN, BaseImages, base_recipe, one_at_a_time, origin_of
from race.work.source_wheels import wheel_from_source
from race.workbench import Workbench

RECIPE, RELEASE, INSTANCE = "race.recipe", "race.release", "race.instance"
SCRIPTS = ("unpack.sh", "install.sh", "editable.py")
DEPS_SCRIPTS = ("unpack.sh", "compile.py", "layers.py")
LAYERS = 8
"""Layers of dependencies: one for each of the largest distributions, the last for all others."""
TIMEOUT = 900.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """All that decides the content of an env image, beside the source tree and the base images."""

    base: BaseImages
    lock: str
    build_lock: str
    install: Literal["editable", "path", "none"]
    environment: Mapping[str, str]
    build_environment: Mapping[str, str]
    with_dependencies: bool = False
    source_cutoff: str = ""
    """The date for building what the lock names as a source archive; empty when it names none."""

    @property
    def deps_digest(self) -> str:
        """What the layer of dependencies depends on; its image is named and shared by this."""
        bases = [base_recipe(self.base.python, kind, self.base.extra) for kind in ("runtime", "builder")]
        used = [*DEPS_SCRIPTS, *(["editable.py"] if self.source_cutoff else [])]
        scripts = [_script(name).decode() for name in used]
        return digest([bases, self.lock, self.deps_dockerfile, scripts, self.source_cutoff])

    @property
    def deps_ref(self) -> str:
        """The name of the image of dependencies."""
        return f"race-deps:{self.deps_digest[:24]}"

    @property
    def deps_dockerfile(self) -> str:
        """The Dockerfile of the dependencies."""
        names = {"builder": self.base.builder, "runtime": self.base.runtime}
        return render("images", "env/deps.Dockerfile.j2", layers=LAYERS, **names)

    @property
    def dockerfile(self) -> str:
        """The Dockerfile of the environment."""
        return render(
            "images",
            "env/env.Dockerfile.j2",
            builder=self.base.builder,
            deps=self.deps_ref,
            install=self.install,
            with_dependencies=self.with_dependencies,
            environment="".join(
                f" {name}={quoted(self.environment[name])}" for name in self.environment
            ),
            build_environment="".join(
                f"{name}={shlex.quote(value)} " for name, value in self.build_environment.items()
            ),
        )

    @property
    def whole(self) -> str:
        """Both Dockerfiles as one text to read; the parts are built one after the other."""
        head = f"# {self.deps_ref}: shared by all tasks with the same lock\n"
        return f"{head}{self.deps_dockerfile}\n# the task's image\n{self.dockerfile}"

    def digest(self, source: bytes) -> str:
        """The recipe of the env image for a source tree; it becomes the image's race.recipe."""
        scripts = {name: sha256(_script(name)) for name in SCRIPTS}
        return digest([self.deps_digest, self.dockerfile, self.build_lock, scripts, sha256(source)])


def quoted(value: str) -> str:
    """A value for an ENV line: nothing in it is expanded."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def _script(name: str) -> bytes:
    return (data_folder("images") / "env" / name).read_bytes()


def build_deps(bench: Workbench, recipe: Recipe, say: Say) -> Image:
    """The image of dependencies, made when no image of that recipe is there; once at a time."""
    with one_at_a_time(bench.workspace.cache_dir / "locks" / f"deps-{recipe.deps_digest[:24]}"):
        return _build_deps(bench, recipe, say)


def _build_deps(bench: Workbench, recipe: Recipe, say: Say) -> Image:
    have = bench.engine.image(recipe.deps_ref)
    if have is not None and have.labels.get(RECIPE) == recipe.deps_digest:
        if have.labels.get(ORIGIN, "") == origin_of(bench, recipe.base):
            return have
        say("dependencies were installed on base images of another origin")
    context = deps_context(bench, recipe, say)
    labels = {RECIPE: recipe.deps_digest, "race.deps": "1"}
    return bench.engine.build(context, tag=recipe.deps_ref, labels=labels, timeout=TIMEOUT)


def deps_context(bench: Workbench, recipe: Recipe, say: Say) -> dict[str, bytes]:
    """What the image of dependencies is built from; wheels are fetched, or made from source."""
    say("fetching dependencies")
    wheels, lock = _wheels_and_lock(bench, recipe, say)
    say(f"installing {len(wheels)} dependencies")
    context = {f"wheels/{name}": data for name, data in wheels.items()}
    context |= {"wheels/.keep": b"", "requirements.lock": lock.encode()}
    context |= {name: _script(name) for name in DEPS_SCRIPTS}
    return context | {"Dockerfile": recipe.deps_dockerfile.encode()}


def _wheels_and_lock(bench: Workbench, recipe: Recipe, say: Say) -> tuple[dict[str, bytes], str]:
    """All wheels of a lock, and the lock with the hashes of those that were made here from source."""
    lock, wheels = recipe.lock, dict[str, bytes]()
    for name, path in bench.resolver.fetch(lock, python=recipe.base.python).items():
        data = path.read_bytes()
        if not name.endswith(".whl"):
            digest_ = sha256(data)
            cutoff = datetime.fromisoformat(recipe.source_cutoff)
            path = wheel_from_source(bench, recipe.base, digest_, path, cutoff, say)
            name, data = path.name, path.read_bytes()
            lock = lock.replace(f"sha256:{digest_}", f"sha256:{sha256(data)}")
        wheels[name] = data
    return wheels, lock


def build_env_image(
    bench: Workbench,
    recipe: Recipe,
    source: bytes,
    *,
    tag: str,
    release: str,
    instance_id: str,
    say: Say,
    fresh: bool = False,
) -> Image:
    """The env image under `tag`, built when the one there has another recipe, or on `fresh`.

    Raises BuildFailed when the project does not install.
    """
    wanted = recipe.digest(source)
    have = bench.engine.image(tag)
    if have is not None and have.labels.get(RECIPE) == wanted and not fresh:
        return have
    build_deps(bench, recipe, say)
    wheels = bench.resolver.fetch(recipe.build_lock, python=recipe.base.python)
    say("installing the project")
    context = {f"back-end/wheels/{name}": path.read_bytes() for name, path in wheels.items()}
    context |= {"back-end/wheels/.keep": b"", "back-end/build.lock": recipe.build_lock.encode()}
    context |= {"back-end/unpack.sh": _script("unpack.sh"), "project/source.tar": source}
    context |= {f"project/{name}": _script(name) for name in ("install.sh", "editable.py")}
    context |= {"Dockerfile": recipe.dockerfile.encode()}
    labels = {RECIPE: wanted, RELEASE: release, INSTANCE: instance_id}
    return bench.engine.build(context, tag=tag, labels=labels, timeout=TIMEOUT, cache=not fresh)


def tree_of(source: bytes, *, limit: int = 2**20) -> dict[str, bytes]:
    """The regular files of a source archive, larger ones and other kinds left out."""
    with tarfile.open(fileobj=io.BytesIO(source)) as archive:
        found = {}
        for member in archive:
            if member.isreg() and member.size <= limit:
                stream = archive.extractfile(member)
                found[member.name.removeprefix("./")] = stream.read() if stream else b""
    return found
