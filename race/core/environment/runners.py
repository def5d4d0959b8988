"""What test runners and CI are told to install and to set: tox, nox, hatch and workflow files."""

from __future__ import annotations

import ast
import configparser
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from race.core.environment.declared import Declared, Tree, read_toml, strings, table
from race.core.environment.legacy import ini_list, read_ini
from race.core.environment.requirement_files import pip_words, words_of

SESSION = re.compile(r"test|pytest|^py(thon)?\d*$|unit|coverage", re.IGNORECASE)


@dataclass
class Runner:
    """What one runner installs for its tests: requirements, extras and groups of the project."""

    where: str
    requirements: list[str] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    ci: bool = False


def runners(tree: Tree, project: Declared) -> list[Runner]:
    """Every runner that says something, the most explicit first."""
    found = [*_tox(tree, project), *_nox(tree), *_hatch(project), *_workflows(tree)]
    return [one for one in found if one.requirements or one.extras or one.groups or one.environment]


def _tox(tree: Tree, project: Declared) -> Iterator[Runner]:
    legacy = table(project.tools, "tox").get("legacy_tox_ini")
    if isinstance(legacy, str):
        yield _tox_ini(_parse(legacy), tree, "pyproject.toml [tool.tox]", "")
    yield _tox_ini(read_ini(tree, "tox.ini"), tree, "tox.ini", "")
    yield _tox_ini(read_ini(tree, "setup.cfg"), tree, "setup.cfg", "tox:")
    native = {**table(project.tools, "tox"), **read_toml(tree, "tox.toml")}
    for name, env in [("env_run_base", native.get("env_run_base")), *table(native, "env").items()]:
        if isinstance(env, dict) and (name == "env_run_base" or SESSION.search(name)):
            runner = Runner(f"tox {name}", extras=[*strings(env.get("extras"))])
            runner.groups += strings(env.get("dependency_groups"))
            _add(runner, [*strings(env.get("deps"))], tree)
            runner.environment.update(_set_env(env.get("set_env")))
            yield runner


def _parse(text: str) -> configparser.RawConfigParser:
    return read_ini({"tox.ini": text.encode()}, "tox.ini")


def _tox_ini(ini: configparser.RawConfigParser, tree: Tree, where: str, prefix: str) -> Runner:
    runner = Runner(where)
    for section in ini.sections():
        name = section.removeprefix(prefix).partition(":")[2] or section
        if section != "testenv" and not (section.startswith("testenv:") and SESSION.search(name)):
            continue
        get = dict(ini.items(section)).get
        lines = [_factor(line) for line in ini_list(get("deps"))]
        _add(runner, [line for line in lines if line and "{" not in line], tree)
        runner.extras += [_factor(line) for line in _split(get("extras"))]
        runner.groups += [_factor(line) for line in _split(get("dependency_groups"))]
        for line in ini_list(get("setenv") or get("set_env")):
            key, _, value = _factor(line).partition("=")
            if "{" not in value and key.strip().isidentifier():
                runner.environment.setdefault(key.strip(), value.strip())
    return runner


def _split(text: str | None) -> list[str]:
    return [part for part in re.split(r"[,\s]+", text or "") if part]


def _factor(line: str) -> str:
    """A line of tox without the condition before it (`py311: trio`)."""
    return re.sub(r"^[A-Za-z0-9_.,!{}\-]+:\s+", "", line).strip()


def _set_env(value: object) -> dict[str, str]:
    given = value if isinstance(value, dict) else {}
    return {key: one for key, one in given.items() if isinstance(one, str) and "{" not in one}


def _add(runner: Runner, lines: list[str], tree: Tree) -> None:
    for line in lines:
        requirements, extras = pip_words(words_of(line) if line.startswith("-") else [line], tree)
        runner.requirements += requirements
        runner.extras += extras


def _nox(tree: Tree) -> Iterator[Runner]:
    try:
        module = ast.parse(tree.get("noxfile.py", b""))
    except (SyntaxError, ValueError):
        return
    for function in module.body:
        if not isinstance(function, ast.FunctionDef) or not SESSION.search(function.name):
            continue
        runner = Runner(f"noxfile.py {function.name}")
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            words = [
                word.value
                for word in call.args
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
            if call.func.attr == "install":
                requirements, extras = pip_words(words, tree)
                runner.requirements += requirements
                runner.extras += extras
                runner.groups += [word[8:] for word in words if word.startswith("--group=")]
            elif call.func.attr in ("run", "run_install", "run_always"):
                runner.extras += _after(words, "--extra")
                runner.groups += _after(words, "--group")
        yield runner


def _after(words: list[str], option: str) -> list[str]:
    found = [word for before, word in itertools.pairwise(words) if before == option]
    return found + [word[len(option) + 1 :] for word in words if word.startswith(f"{option}=")]


def _hatch(project: Declared) -> Iterator[Runner]:
    for name, env in table(project.tools, "hatch", "envs").items():
        if isinstance(env, dict) and (SESSION.search(name) or name == "default"):
            runner = Runner(f"pyproject.toml [tool.hatch.envs.{name}]")
            runner.requirements += strings(env.get("dependencies"))
            runner.requirements += strings(env.get("extra-dependencies"))
            runner.extras += strings(env.get("features"))
            runner.groups += strings(env.get("dependency-groups"))
            runner.environment.update(_set_env(env.get("env-vars")))
            yield runner


def _workflows(tree: Tree) -> Iterator[Runner]:
    """CI files, line by line: what is installed in files that also run tests."""
    for path in sorted(tree):
        if not re.match(
            r"^(\.github/workflows/[^/]+\.ya?ml|\.travis\.yml|\.circleci/config\.yml)$", path
        ):
            continue
        if re.search(r"lint|doc|publish|release|deploy|downstream|codeql|benchmark|wheel", path):
            continue
        text = tree[path].decode("utf-8", "replace").replace("\\\n", " ")
        text = re.sub(r"\$\{\{.*?\}\}", "$", text)
        if not re.search(r"pytest|tox|nox|hatch|make test|coverage run", text):
            continue
        runner = Runner(path, ci=True)
        for line in text.splitlines():
            match = re.search(r"(?:pip3?|uv pip)\s+install\s+(.*)$", line)
            if match:
                requirements, extras = pip_words(words_of(match[1].split("&&")[0].rstrip("'\"")), tree)
                runner.requirements += requirements
                runner.extras += extras
            for kind, pattern in (
                ("extras", r"(?:--extra|-E|--extras)[= ]([\w-]+)"),
                ("groups", r"(?:--group|--with|-G)[= ]([\w,-]+)"),
            ):
                if re.search(r"\b(uv (sync|run)|poetry install|pdm (install|sync))\b", line):
                    for value in re.findall(pattern, line):
                        getattr(runner, kind).extend(value.split(","))
        yield runner
