"""A look into a fresh env image: what its build generated, what the tests still lack."""

from __future__ import annotations

import json
from collections.abc import Mapping

from race.core.environment.declared import Tree
from race.core.environment.imports import used_by_tests
from race.ports import Container, ContainerSpec, Image
from race.workbench import Workbench

PYTHON = "/opt/venv/bin/python"
COLLECT_SECONDS = 120.0
PROBE = (
    "import importlib.util, json, sys; "
    "print(json.dumps([m for m in json.loads(sys.argv[1]) if importlib.util.find_spec(m) is None]))"
)


def generated_files(bench: Workbench, image: Image) -> tuple[str, ...]:
    """Files of the tree that no commit holds: what installing the project wrote."""
    with bench.engine.container(ContainerSpec(image=image.id, lifetime=60)) as container:
        listed = container.get("/repo/.git/info/exclude") or b""
    return tuple(line.lstrip("/") for line in listed.decode("utf-8", "replace").splitlines() if line)


def look_around(
    bench: Workbench, image: Image, tests: Mapping[str, bytes], tree: Tree
) -> tuple[set[str], str]:
    """Top-level modules that these test files import and that are not there, and what pytest says
    when it collects them (without the project's own options)."""
    spec = ContainerSpec(image=image.id, lifetime=4 * COLLECT_SECONDS)
    modules = sorted({use.module for use in used_by_tests(tests, tree) if use.module})
    with bench.engine.container(spec) as container:
        return _absent(container, modules), _collect(container, tests)


def _absent(container: Container, modules: list[str]) -> set[str]:
    done = container.run([PYTHON, "-c", PROBE, json.dumps(modules)], timeout=60, workdir="/repo")
    try:
        return set(json.loads(done.output.decode().strip().splitlines()[-1]))
    except (ValueError, IndexError):
        return set()


def _collect(container: Container, tests: Mapping[str, bytes]) -> str:
    paths = [path for path in sorted(tests) if path.endswith(".py")]
    if not paths:
        return ""
    container.put("/repo", dict(tests), uid=1000)
    argv = [PYTHON, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = container.run([*argv, *paths], timeout=COLLECT_SECONDS)
    return done.output.decode("utf-8", "replace")
