"""A task's environment: worked out from its tree, resolved by date, built, and rebuilt from its record.

Nothing that a project brings runs on this host: its back-end is asked in a container without network,
wheels are fetched by hash and handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from race.core.environment.model import Environment
from race.errors import Malformed, Rejection
from race.ports import Image
from race.settings import ProjectSection
from race.store import Store, TaskFolder
from race.work.base_images import ensure_base
from race.work.environment_images import Recipe, build_env_image
from race.work.ladder import Ladder, from_source
from race.workbench import Workbench

Say = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """An environment as recorded, and its image on this machine."""

    environment: Environment
    image: Image


def env_ref(store: Store, instance_id: str) -> str:
    """The name of a task's env image."""
    return f"{store.settings.repository}:{instance_id}.env"


def build_env(
    bench: Workbench,
    store: Store,
    task: TaskFolder,
    source: bytes,
    *,
    repo: str,
    merged_at: str,
    tests: Mapping[str, bytes] | None = None,
    say: Say = lambda what: None,
) -> Built:
    """Work out, resolve and build a task's environment; its locks and Dockerfile go beside the record.

    `source` is the tar of the tree at the base commit; `tests` are the test files as they will be
    after the test patch (path -> content), whose imports must be met. Raises Unresolvable or
    BuildFailed when every rung of the ladder fails, Unreachable when the index does not answer.
    """
    try:
        override = store.settings.projects.get(repo, ProjectSection())
        ladder = Ladder(
            bench, env_ref(store, task.id), source, _moment(merged_at), override, dict(tests or {}), say
        )
        ladder.labels = (store.settings.release.name, task.id)
        return _recorded(task, ladder, merged_at)
    except Malformed as error:
        raise Rejection("malformed-project", f"{error.file}: {error.what}", error.place) from error


def rebuild_env(
    bench: Workbench,
    store: Store,
    task: TaskFolder,
    environment: Environment,
    source: bytes,
    *,
    tag: str = "",
    fresh: bool = False,
    say: Say = lambda what: None,
) -> Image:
    """The env image from what a record and its files say, nothing else; under `tag` when given.

    An image of the same recipe is taken as it is unless `fresh`. The caller compares the label
    race.recipe with `environment.recipe`: they differ when another version of race made the record.
    """
    base = ensure_base(bench, environment.python, environment.system_packages, say=say)
    recipe = Recipe(
        base=base,
        lock=task.read_file(environment.requirements_lock).decode(),
        build_lock=task.read_file(environment.build_lock).decode(),
        install=environment.install,
        environment=environment.environment,
        build_environment=environment.build_environment,
        source_cutoff=_moment(environment.cutoff).isoformat() if from_source(environment.rungs) else "",
        with_dependencies=any(rung.name == "build-with-dependencies" for rung in environment.rungs),
    )
    return build_env_image(
        bench,
        recipe,
        source,
        tag=tag or env_ref(store, task.id),
        release=store.settings.release.name,
        instance_id=task.id,
        say=say,
        fresh=fresh,
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _recorded(task: TaskFolder, ladder: Ladder, merged_at: str) -> Built:
    """Climb, then write the files beside the record."""
    top = ladder.climb()
    plan, recipe, override = top.plan, top.recipe, ladder.override
    overrides = override.model_dump(mode="json", exclude_defaults=True)
    environment = Environment(
        python=recipe.base.python,
        python_wanted=plan.python_wanted,
        cutoff=merged_at,
        project=plan.project.name,
        version=top.version,
        backend=plan.project.backend,
        install=recipe.install,
        requirements=top.locked.requirements,
        requirements_lock=task.write_file("requirements.lock", recipe.lock.encode()),
        build_requirements=top.build.requirements,
        build_lock=task.write_file("build.lock", recipe.build_lock.encode()),
        sources=plan.needs.sources,
        environment=dict(recipe.environment),
        build_environment=dict(recipe.build_environment),
        system_packages=recipe.base.extra,
        pytest=plan.settings,
        deselect=override.deselect,
        generated=top.generated,
        rungs=tuple(ladder.rungs),
        overrides=tuple(f"{key} = {value}" for key, value in sorted(overrides.items())),
        dockerfile=task.write_file("Dockerfile", recipe.whole.encode()),
        recipe=recipe.digest(ladder.source),
    )
    return Built(environment, top.image)
