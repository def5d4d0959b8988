"""The ladder: from the first plan of an environment to an image in which the tests can be collected.

Each rung gives something up or adds something, and is recorded with the reason. Order: a lock of
everything declared; optional sources and single test requirements dropped; the build back-end helped
(its missing modules, run-time requirements, no cut-off); the tree on the path instead of installed;
modules that the tests import added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from packaging.utils import canonicalize_name

from race.core.environment.declared import Declared, parsed
from race.core.environment.imports import distribution_of, local_modules, missing_modules, used_by_tests
from race.core.environment.model import Rung, reason
from race.core.environment.needs import without_pins
from race.core.environment.plan import Plan, needs_back_end, plan_environment
from race.core.environment.pythons import runner_cutoff
from race.core.environment.runner_dates import RunnerDates
from race.core.environment.versions import next_version
from race.errors import BuildFailed, Unresolvable
from race.ports import Image
from race.settings import ProjectSection
from race.work.base_images import ensure_base, pythons
from race.work.environment_images import Recipe, build_env_image, tree_of
from race.work.image_look import generated_files, look_around
from race.work.locking import Locked, Pinner, lock_build, lock_requirements
from race.work.project_metadata import ask_back_end
from race.work.source_wheels import wheel_from_source
from race.workbench import Workbench

ROUNDS = 3
"""How often modules that tests miss may send us back to the resolver."""


@dataclass(frozen=True)
class Top:
    """Where the ladder ended."""

    plan: Plan
    locked: Locked
    build: Locked
    recipe: Recipe
    image: Image
    version: str
    generated: tuple[str, ...]


@dataclass
class Ladder:
    """One climb. `tests` are the test files as the test patch leaves them."""

    bench: Workbench
    tag: str
    source: bytes
    cutoff: datetime
    override: ProjectSection
    tests: Mapping[str, bytes]
    say: Callable[[str], None]
    labels: tuple[str, str] = ("", "")
    rungs: list[Rung] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tree = tree_of(self.source)
        self.extra: list[str] = [*self.override.requirements]
        self.runner = RunnerDates(self.cutoff)

    def climb(self) -> Top:
        """Raises Unresolvable or BuildFailed with the last reason when no rung holds."""
        top = self._attempt()
        for _ in range(ROUNDS):
            missing, said = self._missing(top)
            if self._climbed(self.runner.unlike_python(top.plan.python, said)):
                top = self._attempt()
                continue
            if not missing:
                break
            known = [*self.rungs]
            try:
                self._add(missing)
                top = self._attempt()
            except Unresolvable as error:
                # What the tests would like to import is not to be had: they go without, and it is said.
                self.rungs[:] = known
                self.extra = [item for item in self.extra if item not in missing]
                what = ", ".join(missing)
                self.rungs.append(Rung(name="import-not-met", what=what, why=error.reason[:300]))
                break
        return top

    def _add(self, missing: Mapping[str, str]) -> None:
        for distribution, why in missing.items():
            self.extra.append(distribution)
            self.rungs.append(Rung(name="missing-import", what=distribution, why=why))

    # -- plan and locks --------------------------------------------------------------------

    def _attempt(self) -> Top:
        self.say("reading the project")
        plan = self._planned(None)
        version, variables = self._version(plan)
        build = self._build_lock(plan, undated=False)
        if needs_back_end(plan.project) and build is not None:
            base = ensure_base(self.bench, plan.python, self.override.system_packages, say=self.say)
            try:
                told = ask_back_end(self.bench, base, build.text, self.source, variables, self.say)
                plan, version = self._planned(told), version or told.version
            except BuildFailed as error:
                what = "setup.py and setup.cfg read as text"
                self._rung("metadata-as-written", what, reason(error.tail))
        self.say("resolving")
        omit = [plan.project.name] if plan.project.name else []
        base = ensure_base(self.bench, plan.python, self.override.system_packages, say=self.say)
        needs = without_pins(plan.needs, self.runner.unpinned)
        pinner = Pinner(
            self.bench.resolver,
            python=plan.python,
            cutoff=self.cutoff,
            omit=omit,
            constraints=self.runner.constraints,
            from_source=lambda digest, archive: wheel_from_source(
                self.bench, base, digest, archive, self.cutoff, self.say
            ),
            later=self.runner.later,
            wheels_until=runner_cutoff(plan.python, self.cutoff),
        )
        try:
            locked = lock_requirements(pinner, needs, run_time=plan.project.requirements)
        except Unresolvable as error:
            if self._climbed(self.runner.widened(error)):
                return self._attempt()
            raise
        if self._climbed(self.runner.below_grader(plan.python, locked.text)):
            return self._attempt()
        for rung in locked.rungs:
            self._rung(rung.name, rung.what, rung.why)
        return self._install(plan, locked, build, version, variables)

    def _planned(self, metadata: Declared | None) -> Plan:
        return plan_environment(
            self.tree,
            merged=self.cutoff.date(),
            available=pythons(),
            python=self.override.python,
            requirements=self.extra,
            environment=self.override.environment,
            metadata=metadata,
        )

    def _version(self, plan: Plan) -> tuple[str, dict[str, str]]:
        """The version that the project will say it has, and what tells it to its back-end."""
        if not plan.tag_variables or "version" not in plan.project.unknown:
            return plan.project.version, {}
        latest = ""
        if plan.project.name:
            try:
                lock = self.bench.resolver.compile(
                    [plan.project.name], python=plan.python, cutoff=self.cutoff
                )
            except Unresolvable:
                lock = ""
            for line in lock.splitlines():
                name, _, rest = line.partition("==")
                if canonicalize_name(name) == plan.project.name:
                    latest = rest.split(" ")[0]
        version = next_version(latest)
        return version, dict.fromkeys(plan.tag_variables, version)

    def _build_lock(self, plan: Plan, *, undated: bool, more: tuple[str, ...] = ()) -> Locked | None:
        """The build back-end's lock; None when even without a cut-off there is none."""
        wanted = (*plan.build_requirements, *more)
        if not wanted:
            return Locked((), "")
        try:
            locked = lock_build(
                self.bench.resolver, wanted, python=plan.python, cutoff=self.cutoff, undated=undated
            )
        except Unresolvable as error:
            self._rung("path-only", "the build back-end cannot be installed", error.reason[:300])
            return None
        for rung in locked.rungs:
            self._rung(rung.name, rung.what, rung.why)
        return locked

    def _rung(self, name: str, what: str, why: str) -> None:
        self._climbed(Rung(name=name, what=what, why=why))

    def _climbed(self, rung: Rung | None) -> bool:
        """Whether there is a rung; it is recorded once."""
        if rung is not None and rung not in self.rungs:
            self.rungs.append(rung)
        return rung is not None

    # -- image -----------------------------------------------------------------------------

    def _install(
        self, plan: Plan, locked: Locked, build: Locked | None, version: str, variables: dict[str, str]
    ) -> Top:
        recipe = Recipe(
            base=ensure_base(self.bench, plan.python, self.override.system_packages, say=self.say),
            lock=locked.text,
            build_lock=build.text if build else "",
            install=plan.install if build else "path",
            environment=plan.environment,
            build_environment=variables,
            source_cutoff=self.cutoff.isoformat() if from_source(locked.rungs) else "",
        )
        build = build or Locked((), "")
        while True:
            try:
                image = self._built(recipe)
                return Top(
                    plan, locked, build, recipe, image, version, generated_files(self.bench, image)
                )
            except BuildFailed as error:
                if "install.sh" not in error.step or recipe.install != "editable":
                    raise
                recipe, build = self._helped(plan, recipe, build, error)

    def _built(self, recipe: Recipe) -> Image:
        release, instance_id = self.labels
        return build_env_image(
            self.bench, recipe, self.source, tag=self.tag, release=release, instance_id=instance_id,
            say=self.say,
        )  # fmt: skip

    def _helped(
        self, plan: Plan, recipe: Recipe, build: Locked, error: BuildFailed
    ) -> tuple[Recipe, Locked]:
        """The next rung for a project that does not install."""
        why = reason(error.tail)
        modules = [name for name in missing_modules(error.tail) if name not in local_modules(self.tree)]
        wanted = [distribution_of(name) for name in modules]
        run_time = {_name(item) for item in plan.project.requirements}
        if not recipe.with_dependencies and set(wanted) & run_time:
            self._rung("build-with-dependencies", "run-time requirements while building", why)
            return replace(recipe, with_dependencies=True), build
        new = tuple(item for item in wanted if item not in build.requirements)
        if new:
            locked = self._build_lock(plan, undated=False, more=new)
            if locked is not None:
                self._rung("build-requirement", ", ".join(new), why)
                return replace(recipe, build_lock=locked.text), locked
        if not any(rung.name == "build-undated" for rung in self.rungs):
            locked = self._build_lock(plan, undated=True)
            if locked is not None and locked.text != recipe.build_lock:
                self._rung("build-undated", ", ".join(plan.build_requirements), why)
                return replace(recipe, build_lock=locked.text), locked
        self._rung("path-only", "the tree is on the path, without metadata", why)
        return replace(recipe, install="path", build_lock=""), Locked((), "")

    def _missing(self, top: Top) -> tuple[dict[str, str], str]:
        """Distributions that the tests use and the image does not have, with the reason for each, and
        what pytest said when it collected."""
        self.say("looking for what the tests miss")
        absent, said = look_around(self.bench, top.image, self.tests, self.tree)
        locked = {_name(line.split(" ")[0]) for line in top.recipe.lock.splitlines()}
        asked = {_name(item) for item in self.extra} | {top.plan.project.name}
        found: dict[str, str] = {}
        for use in used_by_tests(self.tests, self.tree):
            lacking = use.module in absent if use.module else _name(use.distribution) not in locked
            if lacking:
                found.setdefault(use.distribution, use.why)
        local = local_modules(self.tree)
        for module in missing_modules(said):
            if module.split(".")[0] not in local:
                found.setdefault(distribution_of(module), f"collecting the tests: no module {module}")
        return {key: why for key, why in found.items() if _name(key) not in locked | asked}, said


def from_source(rungs: Iterable[Rung]) -> bool:
    """Whether a lock with these rungs names source archives."""
    return any(rung.name == "built-from-source" for rung in rungs)


def _name(item: str) -> str:
    requirement = parsed(item)
    return str(canonicalize_name(requirement.name)) if requirement else ""
