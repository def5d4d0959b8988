"""The test image of a task: the environment image, the hidden tests and the grader in one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from race.core.records import canonical, digest, sha256
from race.errors import Accident, Rejection
from race.ports import ContainerSpec, Engine, Image, Limits
from race.render import data_folder, render
from race.store import Store
from race.work.observing import CAPABILITIES, grader_files

ROOT = "/repo"
RUN_TESTS = "/soma/run_tests.sh"
REPORT = "/tmp/report.json"
NOT_SHIPPED = ("perturb.py",)
SUBMISSION = "soma-agent.patch"
_TRIAL = "USER root\nCOPY trial.json /soma/task/trial.json\nRUN chmod 600 /soma/task/trial.json\n"
_SHARED = ("patches.py", "paths.py", "unified_diff.py")


@dataclass(frozen=True)
class TestImage:
    """All that decides what a test image holds, but the release's secret.

    `environment` and `arguments` are those that validation ran the tests with; `env_recipe` is the
    digest that the env image was built from.
    """

    __test__ = False

    instance_id: str
    env_image: str
    env_recipe: str
    fail_to_pass: Sequence[str]
    pass_to_pass: Sequence[str]
    test_patch: bytes
    fix_patch: bytes
    canary: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    test_seconds: float = 60.0
    run_seconds: float = 600.0
    memory_mb: int = 4096

    @property
    def test_command(self) -> str:
        """The pytest command that a reader of the task list is shown."""
        listed = [*self.fail_to_pass, *self.pass_to_pass]
        files = sorted({nodeid.partition("::")[0] for nodeid in listed})
        return " ".join(["python -m pytest --json-report", f"--json-report-file={REPORT}", *files])

    def context(self, secret: bytes) -> dict[str, bytes]:
        """The files of the image's build, without its Dockerfile."""
        task = {
            "instance_id": self.instance_id,
            "canary": self.canary,
            "root": ROOT,
            "python": "/opt/venv/bin/python",
            "fail_to_pass": list(self.fail_to_pass),
            "pass_to_pass": list(self.pass_to_pass),
            "environment": dict(self.environment),
            "arguments": list(self.arguments),
            "test_seconds": self.test_seconds,
            "run_seconds": self.run_seconds,
            "memory_bytes": self.memory_mb * 2**20,
        }
        files = {f"soma/grader/{name}": data for name, data in shipped_grader().items()}
        files["soma/run_tests.sh"] = (data_folder("images") / "grader" / "run_tests.sh").read_bytes()
        files["soma/task/task.json"] = canonical(task)
        files["soma/task/failed.json"] = json.dumps(self._all_failed()).encode()
        files["soma/task/test.patch"] = self.test_patch
        files["soma/task/secret"] = secret
        return files

    def _all_failed(self) -> dict[str, object]:
        listed = [*self.fail_to_pass, *self.pass_to_pass]
        return {
            "exitcode": 1,
            "root": ROOT,
            "environment": {},
            "summary": {"failed": len(listed), "total": len(listed)},
            "tests": [{"nodeid": name, "outcome": "failed"} for name in listed],
        }

    def dockerfile(self) -> str:
        """The image's Dockerfile."""
        return render(
            "images",
            "test.Dockerfile.j2",
            env_image=self.env_image,
            root=ROOT,
            test_command=self.test_command.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$"),
        )

    def recipe(self) -> str:
        """Digest of everything that the build reads, the same on every machine."""
        files = {name: sha256(data) for name, data in self.context(b"").items()}
        return digest([self.dockerfile(), files, self.env_recipe, sha256(self.fix_patch)])


def shipped_grader() -> dict[str, bytes]:
    """The grader as it lies in a test image: its modules and those of race.core that it shares."""
    files = {name: data for name, data in grader_files().items() if name not in NOT_SHIPPED}
    core = Path(__file__).resolve().parent.parent / "core"
    files |= {f"race/core/{name}": (core / name).read_bytes() for name in _SHARED}
    return files | {"race/__init__.py": b"", "race/core/__init__.py": b""}


def release_secret(store: Store) -> bytes:
    """The secret that the release's negative controls are drawn from; made when there is none.

    It lies in the release's private folder, is never committed, and need not be the same elsewhere.
    """
    kept = store.read_local("controls.json").get("secret")
    if not isinstance(kept, str):
        kept = os.urandom(32).hex()
        store.write_local("controls.json", {"secret": kept})
    return kept.encode()


def build_test(
    engine: Engine, wanted: TestImage, tag: str, secret: bytes, labels: Mapping[str, str] | None = None
) -> Image:
    """The test image under `tag`; not built again when its recipe is the same.

    Raises Rejection when there is nothing to grade or the test patch does not apply, EngineDown.
    """
    if not wanted.fail_to_pass:
        raise Rejection("no-fail-to-pass", "no test fails without the fix and passes with it")
    both = set(wanted.fail_to_pass) & set(wanted.pass_to_pass)
    if both:
        raise Rejection("id-in-both-lists", "an id is in both lists", sorted(both)[0])
    recipe = wanted.recipe()
    found = engine.image(tag)
    if found is not None and found.labels.get("race.recipe") == recipe:
        return found
    context = wanted.context(secret) | {"Dockerfile": wanted.dockerfile().encode()}
    marks = {"race.instance": wanted.instance_id, **(labels or {})}
    untried = engine.build(context, tag=f"{tag}-untried", labels=marks, network=False)
    try:
        trial = try_out(engine, untried, wanted.fix_patch)
        if b'"reference"' in trial[:200]:
            trial = try_out(engine, untried, wanted.fix_patch)
        context = {"Dockerfile": f"FROM {tag}-untried\n{_TRIAL}".encode(), "trial.json": trial}
        return engine.build(context, tag=tag, labels={**marks, "race.recipe": recipe}, network=False)
    finally:
        engine.remove_image(f"{tag}-untried")


def try_out(engine: Engine, image: Image, fix_patch: bytes) -> bytes:
    """What the grader finds out with the reference fix: see `try_out` in its module `grade`."""
    spec = ContainerSpec(
        image=image.id,
        user="root",
        workdir=ROOT,
        capabilities=CAPABILITIES,
        limits=Limits(4096, cpus=2.0, pids=1024),
    )
    with engine.container(spec) as container:
        container.put("/tmp", {SUBMISSION: fix_patch}, mode=0o600)
        result = container.run(
            ["sh", "-c", "exec $(command -v python3) -I -S /soma/grader/launch.py trial"],
            timeout=1800,
            user="root",
            workdir=ROOT,
            output_limit=2**24,
        )
    if result.exit_code != 0:
        tail = result.output[-500:].decode(errors="replace")
        raise Accident(f"the grader's trial ended early (exit {result.exit_code}): {tail}")
    return result.output
