"""Environment images of small real projects: what is in them, what is not, and that they repeat."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from race.errors import Rejection, Unresolvable
from race.ports import Container, ContainerSpec, Engine
from race.store import Store
from race.work.base_images import ensure_base
from race.work.environment_images import Recipe, deps_context
from race.work.environments import Built, build_env, rebuild_env
from race.workbench import Workbench

pytestmark = [pytest.mark.engine, pytest.mark.network]

MERGED = "2025-06-01T12:00:00Z"
RELEASE = '[release]\nname = "envtest"\ncanary = "00000000-0000-4000-8000-000000000000"\n'
LISTING = r"""
import hashlib, json, os, stat, sys
found = {}
for top in ("/opt/venv", "/repo"):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            kind = stat.S_IFMT(info.st_mode)
            body = os.readlink(path) if kind == stat.S_IFLNK else ""
            if kind == stat.S_IFREG:
                body = hashlib.sha256(open(path, "rb").read()).hexdigest()
            found[path] = [kind, oct(info.st_mode), info.st_uid, body]
json.dump(found, sys.stdout)
"""


def source(files: dict[str, str]) -> bytes:
    """A tree as the tar that a history gives."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(files[path].encode()), 0o644
            tar.addfile(entry, io.BytesIO(files[path].encode()))
    return out.getvalue()


MODERN = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling", "hatch-vcs"]
build-backend = "hatchling.build"
[project]
name = "thing"
dynamic = ["version"]
requires-python = ">=3.9"
dependencies = ["idna>=3"]
scripts = {thing = "thing:main"}
[dependency-groups]
test = ["pytest>=8"]
[tool.hatch.version]
source = "vcs"
[tool.hatch.build.hooks.vcs]
version-file = "src/thing/_version.py"
""",
    "src/thing/__init__.py": "import idna\n\ndef main():\n    print('thing', idna.encode('x'))\n",
    "tests/test_thing.py": "import thing\n\ndef test_thing():\n    assert thing.main() is None\n",
    ".gitignore": "*.log\n",
    "kept.log": "tracked although it is ignored\n",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A release folder for these tests."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "release.toml").write_text(RELEASE)
    return Store(folder)


Builder = Callable[..., Built]


@pytest.fixture(scope="module")
def build(bench: Workbench, engine: Engine, store: Store) -> Builder:
    """Builds a tree as a task; its image is removed with the others of this release."""

    def make(number: int, files: dict[str, str], tests: dict[str, bytes] | None = None) -> Built:
        task = store.task(f"sample__env-{number}")
        return build_env(
            bench, store, task, source(files), repo="sample/env", merged_at=MERGED, tests=tests
        )

    return make


@pytest.fixture(scope="module")
def modern(build: Builder) -> Built:
    """A project with a version from tags, a script and a dependency."""
    return build(1, MODERN, {"tests/test_thing.py": MODERN["tests/test_thing.py"].encode()})


def said(container: Container, *argv: str) -> str:
    """The output of a command that must succeed."""
    done = container.run(argv, timeout=60)
    assert done.exit_code == 0, done.output.decode()
    return done.output.decode().strip()


def test_the_project_is_installed_and_its_tests_run(engine: Engine, modern: Built) -> None:
    """Metadata, version, script and editable import are there for an ordinary user, without network."""
    with engine.container(ContainerSpec(image=modern.image.id)) as container:
        assert said(container, "id", "-un") == "agent"
        assert said(container, "thing") == "thing b'x'"
        version = "import importlib.metadata as m; print(m.version('thing'))"
        assert said(container, "python", "-c", version) == "0.1.dev0"
        assert "1 passed" in said(container, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
        container.run(["sh", "-c", "echo 'def main(): print(2)' > src/thing/__init__.py"], timeout=10)
        assert said(container, "thing") == "2"


def test_the_record_says_what_was_done(modern: Built, store: Store) -> None:
    """Sources, cut-off, wanted Python, the generated file; the lock has one hash to a line."""
    environment = modern.environment
    assert environment.python == "3.11"
    assert "requires-python >=3.9" in environment.python_wanted
    assert environment.sources == ("pyproject.toml [dependency-groups] test",)
    assert environment.build_environment == {"SETUPTOOLS_SCM_PRETEND_VERSION": "0.1.dev0"}
    assert environment.generated == ("src/thing/_version.py",)
    assert environment.rungs == ()
    lock = store.task("sample__env-1").read_file(environment.requirements_lock).decode()
    names = [line.split("==")[0] for line in lock.splitlines()]
    assert names == sorted(names)
    assert {"idna", "pytest"} <= set(names)
    assert all(line.count("--hash=sha256:") == 1 for line in lock.splitlines())
    assert modern.image.labels["race.recipe"] == environment.recipe


def test_dependencies_are_those_of_the_merge_date(modern: Built, store: Store) -> None:
    """Nothing that was uploaded after the cut-off: pytest 8.4.0 came out a day later."""
    lock = store.task("sample__env-1").read_file(modern.environment.requirements_lock).decode()
    assert "pytest==8.3.5" in lock


def test_the_repository_is_one_fresh_commit(engine: Engine, modern: Built) -> None:
    """One commit, all tracked, clean, nothing else in .git that tells of a past; one date everywhere."""
    with engine.container(ContainerSpec(image=modern.image.id)) as container:
        assert said(container, "git", "rev-list", "--all", "--count") == "1"
        assert said(container, "git", "status", "--short") == ""
        assert "kept.log" in said(container, "git", "ls-files")
        assert said(container, "git", "remote") == ""
        there = said(container, "ls", ".git").split()
        assert not {"logs", "ORIG_HEAD", "FETCH_HEAD", "hooks", "COMMIT_EDITMSG"} & set(there)
    with engine.container(ContainerSpec(image=modern.image.id)) as container:
        dates = said(container, "find", "/repo", "-printf", "%T@\n").splitlines()
        assert {date.split(".")[0] for date in dates} == {"946684800"}
        assert {said(container, "stat", "-c", "%U", "/repo")} == {"agent"}


def test_nothing_of_the_host_is_in_the_image(engine: Engine, bench: Workbench, modern: Built) -> None:
    """No certificates of this host, no installer or its cache, no index address, no proxy setting."""
    bundle = Path(bench.workspace.ca_bundle) if bench.workspace.ca_bundle else None
    look = (
        "find / -xdev \\( -name 'ca-certificates.crt' -o -name 'pip' -o -name 'uv' -o -name '*.whl' "
        "-o -path '/etc/ssl/certs/*.pem' -o -name 'pip.conf' -o -name 'uv.toml' \\) -print "
        "2>/dev/null; ls -A /tmp"
    )
    with engine.container(ContainerSpec(image=modern.image.id, user="0")) as container:
        assert said(container, "sh", "-c", look) == ""
        variables = said(container, "env")
        assert not any(word in variables.lower() for word in ("proxy", "index", "cert", "ssl"))
    assert "PRETEND" not in json.dumps(dict(modern.image.config))
    if bundle is not None and bundle.is_file():
        line = bundle.read_text().strip().splitlines()[-2].encode()
        stream = b"".join(engine.save(modern.image.id))
        assert MODERN["tests/test_thing.py"].encode() in stream, "the archive can be searched"
        assert line not in stream


def test_the_agent_may_write_the_repository_and_nothing_else(engine: Engine, modern: Built) -> None:
    """/repo is the agent's, the interpreter and its packages are not."""
    with engine.container(ContainerSpec(image=modern.image.id)) as container:
        assert container.run(["touch", "/repo/new"], timeout=10).exit_code == 0
        for path in ("/opt/venv/x", "/opt/venv/lib/python3.11/site-packages/x", "/usr/x", "/etc/x"):
            assert container.run(["touch", path], timeout=10).exit_code != 0, path


def test_the_same_record_gives_the_same_content(
    bench: Workbench, engine: Engine, store: Store, modern: Built
) -> None:
    """Rebuilt from the release folder alone without any cache: every file of /opt/venv and /repo."""
    again = rebuild_env(
        bench, store, store.task("sample__env-1"), modern.environment, source(MODERN),
        tag="race-envtest:again", fresh=True,
    )  # fmt: skip
    assert again.id != modern.image.id
    assert again.labels["race.recipe"] == modern.environment.recipe
    assert again.layers == modern.image.layers, "time stamps included"
    listings = []
    for image in (modern.image.id, again.id):
        with engine.container(ContainerSpec(image=image, user="0")) as container:
            done = container.run(["python3", "-c", LISTING], timeout=60, output_limit=2**26)
            listings.append(json.loads(done.output))
    first, second = listings
    assert first.keys() == second.keys()
    assert {path for path in first if first[path] != second[path]} == set()
    assert len(first) > 300
    engine.remove_image("race-envtest:again")


def test_tasks_with_one_lock_share_their_layers(engine: Engine, build: Builder, modern: Built) -> None:
    """A second task of the project adds its repository and nothing like its dependencies."""
    other = build(2, {**MODERN, "extra.txt": "x" * 1000})
    own = set(other.image.layers) - set(modern.image.layers)
    assert len(own) == 1, "only its repository is its own"
    assert other.image.size - modern.image.size < 2**20


def test_the_same_lock_gives_the_same_layers(
    bench: Workbench, engine: Engine, store: Store, modern: Built
) -> None:
    """Dependencies installed anew without any cache are the same bytes, time stamps included."""
    environment = modern.environment
    lock = store.task("sample__env-1").read_file(environment.requirements_lock).decode()
    recipe = Recipe(
        base=ensure_base(bench, environment.python), lock=lock, build_lock="", install="none",
        environment={}, build_environment={},
    )  # fmt: skip
    below = engine.image(recipe.deps_ref)
    assert below is not None
    assert below.layers == modern.image.layers[: len(below.layers)]
    context = deps_context(bench, recipe, lambda what: None)
    again = engine.build(context, tag="race-envtest:deps", cache=False, timeout=120)
    assert again.layers == below.layers
    engine.remove_image("race-envtest:deps")


def test_locks_that_differ_share_what_they_have_in_common(
    engine: Engine, build: Builder, modern: Built
) -> None:
    """One more small requirement: the layers of the large ones are the same, in the same place."""
    project = MODERN["pyproject.toml"].replace("idna>=3", 'idna>=3", "sniffio')
    other = build(10, {**MODERN, "pyproject.toml": project})
    assert "sniffio>=" not in str(modern.environment.requirements)
    assert "sniffio" in other.environment.requirements
    pairs = zip(modern.image.layers, other.image.layers, strict=True)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    assert common == len(modern.image.layers) - 3, "one layer of dependencies, two above them"


OF_OLD = {
    "setup.py": "from setuptools import setup\n"
    "setup(name='old-thing', version='1', py_modules=['old_thing'], tests_require=['pytest'])\n",
    "old_thing.py": "",
    "tests/test_old.py": "import old_thing\n\ndef test_old(): pass\n",
}
LONG_AGO = "2018-07-27T20:27:14Z"


def test_a_commit_of_long_ago_gets_a_runner_that_the_grader_drives(
    bench: Workbench, engine: Engine, store: Store
) -> None:
    """pytest 7 at least, also when all that it needs is younger than the commit, and it is said."""
    built = build_env(
        bench, store, store.task("sample__env-11"), source(OF_OLD), repo="sample/old", merged_at=LONG_AGO
    )
    rungs = [(rung.name, rung.what) for rung in built.environment.rungs]
    assert ("runner-of-the-grader", "attrs of pytest's date too") in rungs
    with engine.container(ContainerSpec(image=built.image.id)) as container:
        version = said(container, "python", "-c", "import pytest; print(pytest.__version__)")
        assert int(version.split(".")[0]) >= 7
        assert "1 passed" in said(container, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_a_project_that_no_runner_of_the_grader_goes_with(bench: Workbench, store: Store) -> None:
    """What the project needs at run time forbids every later pytest: rejected, and said why."""
    project = '[project]\nname = "old-thing"\nversion = "1"\ndependencies = ["attrs<19"]\n'
    with pytest.raises(Unresolvable, match=r"does not go with pytest 7 or later.*attrs"):
        build_env(
            bench, store, store.task("sample__env-12"),
            source({"pyproject.toml": project, "old_thing.py": ""}),
            repo="sample/old", merged_at=LONG_AGO,
        )  # fmt: skip


LEGACY = {
    "setup.py": "from setuptools import setup\nimport os\n"
    "wanted = ['idna' + ('>=3' if os.name == 'posix' else '')]\n"
    "setup(name='old-thing', version='3.1', py_modules=['old_thing'], install_requires=wanted,\n"
    "      extras_require={'test': ['pytest', 'mo' + 'ck']})\n",
    "old_thing.py": "import idna\n",
    "tests/test_old.py": "import mock, old_thing\n\ndef test_old(mocker):\n    assert old_thing.idna\n",
}


def test_a_setup_py_that_computes_its_requirements(engine: Engine, build: Builder, store: Store) -> None:
    """The back-end is asked in a container; a plugin that only a fixture names is added, and said."""
    built = build(3, LEGACY, {"tests/test_old.py": LEGACY["tests/test_old.py"].encode()})
    assert {"idna>=3", "mock", "pytest"} <= set(built.environment.requirements)
    assert built.environment.version == "3.1"
    assert [(rung.name, rung.what) for rung in built.environment.rungs] == [
        ("missing-import", "pytest-mock")
    ]
    with engine.container(ContainerSpec(image=built.image.id)) as container:
        assert "1 passed" in said(container, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
        assert said(container, "git", "status", "--short") == ""
        assert "egg-info" not in said(container, "ls")


def test_a_package_that_exists_only_as_source(engine: Engine, build: Builder, store: Store) -> None:
    """It is built in a container; the lock names the archive, and a rebuild makes it again."""
    files = {**MODERN, "pyproject.toml": MODERN["pyproject.toml"].replace("idna>=3", "docopt==0.6.2")}
    files["src/thing/__init__.py"] = "import docopt\n\ndef main(): ...\n"
    built = build(4, files)
    assert [rung.name for rung in built.environment.rungs] == ["built-from-source"]
    lock = store.task("sample__env-4").read_file(built.environment.requirements_lock).decode()
    assert "docopt==0.6.2 --hash=sha256:" in lock
    with engine.container(ContainerSpec(image=built.image.id)) as container:
        assert said(container, "python", "-c", "import docopt; print(docopt.__version__)") == "0.6.2"


def test_a_project_that_does_not_install_is_put_on_the_path(engine: Engine, build: Builder) -> None:
    """The last rung, with the reason: the tests can still run."""
    files = {
        "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "backend"\n'
        'backend-path = ["."]\n[project]\nname = "thing"\nversion = "1"\n',
        "backend.py": "raise RuntimeError('this back-end never works')\n",
        "src/thing/__init__.py": "x = 1\n",
    }
    built = build(5, files)
    assert built.environment.install == "path"
    assert built.environment.rungs[-1].name == "path-only"
    assert "never works" in built.environment.rungs[-1].why
    with engine.container(ContainerSpec(image=built.image.id)) as container:
        assert said(container, "python", "-c", "import thing; print(thing.x)") == "1"


def test_a_back_end_that_hangs_or_attacks_stays_inside(build: Builder, tmp_path: Path) -> None:
    """A setup.py runs as an ordinary user without network; what it tries is its own failure."""
    script = (
        "import os, socket, sys\n"
        "assert os.getuid() != 0\n"
        "try:\n    socket.create_connection(('1.1.1.1', 80), timeout=3)\n"
        "except OSError:\n    pass\nelse:\n    sys.exit('has network')\n"
        "try:\n    open('/opt/build/x', 'w')\n"
        "except OSError:\n    pass\nelse:\n    sys.exit('may write')\n"
        "from setuptools import setup\nsetup(name='sly', version='1', py_modules=['sly'])\n"
    )
    built = build(6, {"setup.py": script, "sly.py": ""})
    assert built.environment.install == "editable"
    assert built.environment.rungs == ()


def test_contradictory_requirements_are_a_verdict(build: Builder) -> None:
    """The resolver's words name both sides; nothing is dropped from what the project itself needs."""
    text = MODERN["pyproject.toml"].replace('"idna>=3"', '"idna>=3", "idna<3"')
    with pytest.raises(Unresolvable, match="idna"):
        build(7, {**MODERN, "pyproject.toml": text})


def test_a_broken_project_file_is_a_verdict(build: Builder) -> None:
    """A pyproject.toml that does not parse rejects the task and is named."""
    with pytest.raises(Rejection, match=r"pyproject\.toml"):
        build(8, {"pyproject.toml": "[project\n"})


def test_overrides_are_used_and_recorded(bench: Workbench, engine: Engine, tmp_path: Path) -> None:
    """What release.toml says about a project is in the image and in the record."""
    (tmp_path / "release.toml").write_text(
        RELEASE + '[projects."sample/env"]\nrequirements = ["iniconfig"]\nenvironment = {X = "a $b"}\n'
        'deselect = ["tests/test_thing.py::test_slow"]\n'
    )
    store = Store(tmp_path)
    built = build_env(
        bench, store, store.task("sample__env-9"), source(MODERN), repo="sample/env", merged_at=MERGED
    )
    assert built.environment.deselect == ("tests/test_thing.py::test_slow",)
    assert len(built.environment.overrides) == 3
    with engine.container(ContainerSpec(image=built.image.id)) as container:
        assert said(container, "sh", "-c", 'echo "$X"') == "a $b"
