"""Who may import whom: walks the source and fails on anything that the architecture forbids."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "race"
ALLOWED = {
    "errors": set(),
    "core": {"core", "errors"},
    "ports": {"core", "errors", "ports"},
    "settings": {"core", "errors"},
    "store": {"core", "errors", "settings"},
    "render": {"errors"},
    "progress": {"errors"},
    "workbench": {"adapters", "core", "errors", "ports", "settings"},
    "options": {"errors", "settings", "workbench"},
    "adapters": {"adapters", "core", "errors", "ports"},
    "sample": {"core", "errors", "sample"},
    "battery": {"core", "errors", "battery"},
    "work": {
        "battery", "core", "errors", "ports", "progress", "render", "sample", "settings", "store",
        "work", "workbench",
    },
    "stages": {
        "core", "errors", "options", "ports", "progress", "render", "settings", "store", "work",
        "workbench", "stages",
    },
    "commands": {
        "battery",
        "core", "errors", "options", "ports", "progress", "render", "sample", "settings", "store",
        "work", "workbench",
    },
    "cli": {"errors"},
    "__main__": {"cli"},
    "__init__": set(),
}  # fmt: skip
SDK = {
    "docker_build": {"docker"},
    "docker_engine": {"docker", "requests", "urllib3"},
    "docker_container": {"docker"},
    "docker_seam": {"docker", "requests", "urllib3"},
    "uv_resolver": {"uv"},
    "git_command": {"git"},
    "github_client": {"github", "requests", "urllib3"},
    "github_history": {"github", "requests", "urllib3"},
    "litellm_model": {"litellm"},
    "mini_agent": {"minisweagent"},
}
OUTSIDE = {"docker", "git", "github", "litellm", "minisweagent", "uv", "requests", "urllib3"}


def modules() -> list[Path]:
    return [
        path
        for path in PACKAGE.rglob("*.py")
        if "_data" not in path.parts and "history" not in path.parts
    ]


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.add("race.<relative>")
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_own_imports_follow_the_architecture(path: Path) -> None:
    """No module imports a part of race that its place forbids."""
    place = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    own = {name.split(".")[1] for name in imports(path) if name.startswith("race.")}
    own -= {"__version__"}
    assert own <= ALLOWED[place], f"{path} may not import {sorted(own - ALLOWED[place])}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_foreign_sdk_stays_in_its_adapter(path: Path) -> None:
    """Only an adapter imports an SDK, and only its own."""
    used = {name.split(".")[0] for name in imports(path)} & OUTSIDE
    allowed = SDK.get(path.stem, set()) if path.parent.name == "adapters" else set()
    assert used <= allowed, f"{path} may not import {sorted(used - allowed)}"


def test_only_the_workbench_defers_imports() -> None:
    """Imports stand at the top of a module, except in the workbench and for foreign SDKs in adapters."""
    for path in modules():
        if path.stem == "workbench" or path.parent.name == "adapters":
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    deferred = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                        "race"
                    )
                    assert not deferred, f"{path}:{node.lineno} defers an import of race"


def test_stages_and_commands_do_not_import_each_other() -> None:
    """What several need is in work/; a stage may use the loop over tasks, nothing else of theirs."""
    for path in modules():
        if path.parent.name not in ("stages", "commands"):
            continue
        used = {name for name in imports(path) if name.startswith(("race.stages.", "race.commands."))}
        others = {name for name in used if not name.startswith("race.stages._loop")}
        assert not others, f"{path} may not import {sorted(others)}"


def test_help_imports_nothing_heavy() -> None:
    """`race --help` pays for click alone: no scipy, docker, GitHub, git or model library is loaded."""
    code = (
        "import sys; from race.cli import run; run(['--help']);"
        "heavy = 'scipy numpy docker github git litellm pydantic rich'.split();"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
