"""How a project runs pytest, and which plugins its settings need."""

from __future__ import annotations

import re
import shlex
from typing import Any

from race.core.environment.declared import Declared, Tree, read_toml, strings, table
from race.core.environment.legacy import read_ini
from race.core.environment.model import PytestSettings

OPTION_PLUGINS = {
    "--cov": "pytest-cov", "--no-cov": "pytest-cov", "-n": "pytest-xdist",
    "--numprocesses": "pytest-xdist",
    "--dist": "pytest-xdist", "--timeout": "pytest-timeout", "--asyncio-mode": "pytest-asyncio",
    "--reruns": "pytest-rerunfailures", "--benchmark-disable": "pytest-benchmark",
    "--randomly-seed": "pytest-randomly", "--random-order": "pytest-random-order",
    "--mypy-ini-file": "pytest-mypy-plugins", "--ruff": "pytest-ruff", "--black": "pytest-black",
    "--flake8": "pytest-flake8", "--isort": "pytest-isort", "--forked": "pytest-forked",
    "--count": "pytest-repeat", "--html": "pytest-html", "--sugar": "pytest-sugar",
    "--pspec": "pytest-pspec", "--aiohttp-fast": "pytest-aiohttp", "--loop": "pytest-aiohttp",
}  # fmt: skip
SETTING_PLUGINS = {
    "asyncio_mode": "pytest-asyncio", "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "timeout": "pytest-timeout", "timeout_method": "pytest-timeout", "trio_mode": "pytest-trio",
    "env": "pytest-env", "DJANGO_SETTINGS_MODULE": "pytest-django", "flakefinder": "pytest-flakefinder",
    "mypy_plugin": "pytest-mypy", "xvfb": "pytest-xvfb", "anyio_mode": "anyio",
}  # fmt: skip


def pytest_settings(tree: Tree, project: Declared) -> PytestSettings:
    """From the file that pytest itself would choose: pytest.ini, pyproject.toml, tox.ini, setup.cfg."""
    file, values = _settings(tree, project)
    options = _words(values.get("addopts"))
    plugins = [name for option, name in OPTION_PLUGINS.items() if _uses(options, option)]
    plugins += [name for setting, name in SETTING_PLUGINS.items() if setting in values]
    plugins += [
        re.split(r"[<>=!~ \[;]", line)[0]
        for line in _words(values.get("required_plugins"))
        if line[0].isalpha()
    ]
    return PytestSettings(
        file=file,
        options=tuple(options),
        paths=tuple(_words(values.get("testpaths"))),
        plugins=tuple(dict.fromkeys(plugins)),
        minimum=str(values.get("minversion") or ""),
    )


def _settings(tree: Tree, project: Declared) -> tuple[str, dict[str, Any]]:
    for path in ("pytest.toml", ".pytest.toml"):
        if path in tree:
            return path, table(read_toml(tree, path), "pytest")
    for path in ("pytest.ini", ".pytest.ini"):
        if path in tree:
            ini = read_ini(tree, path)
            return path, dict(ini.items("pytest")) if ini.has_section("pytest") else {}
    pytest = table(project.tools, "pytest")
    if "ini_options" in pytest:
        return "pyproject.toml", table(pytest, "ini_options")
    if pytest:
        return "pyproject.toml", pytest
    for path, section in (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        ini = read_ini(tree, path)
        if ini.has_section(section):
            return path, dict(ini.items(section))
    return "", {}


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            return shlex.split(value, comments=True)
        except ValueError:
            return value.split()
    return [*strings(value)]


def _uses(options: list[str], option: str) -> bool:
    if option.startswith("--"):
        return any(word == option or word.startswith((f"{option}=", f"{option}-")) for word in options)
    return any(word == option or re.fullmatch(rf"{option}\S+", word) is not None for word in options)
