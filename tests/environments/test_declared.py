"""What project files declare, read without running them."""

from __future__ import annotations

from datetime import date

import pytest

from race.core.environment.conda import conda_groups
from race.core.environment.declared import caret, declared, poetry_requirements
from race.core.environment.legacy import read_setup
from race.core.environment.metadata import read_metadata
from race.core.environment.plan import Plan, needs_back_end, plan_environment
from race.core.environment.pythons import choose_python
from race.core.environment.versions import next_version, tag_variables
from race.errors import Malformed, Unresolvable

PYTHONS = ["3.11", "3.13"]


def plan(files: dict[str, str], merged: date = date(2025, 6, 1)) -> Plan:
    """The plan for a tree of these files."""
    tree = {path: text.encode() for path, text in files.items()}
    return plan_environment(tree, merged=merged, available=PYTHONS)


def test_dependency_groups_with_included_groups() -> None:
    """PEP 735: a test group brings its included groups, and nothing of other groups."""
    made = plan(
        {
            "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "Some.Thing"
version = "1"
dependencies = ["idna"]
[dependency-groups]
test = ["pytest>=8", {include-group = "base_deps"}]
base-deps = ["trio"]
docs = ["sphinx"]
"""
        }
    )
    assert made.needs.requirements == ("idna", "pytest>=8", "trio")
    assert made.project.name == "some-thing"
    assert made.build_requirements == ("hatchling", "editables")


def test_groups_that_include_each_other_are_malformed() -> None:
    """A cycle of groups is one clear error with the cycle in it, not a recursion."""
    text = '[dependency-groups]\na = [{include-group = "b"}]\nb = [{include-group = "a"}]\n'
    with pytest.raises(Malformed, match="a -> b -> a"):
        declared({"pyproject.toml": text.encode()})


def test_a_project_file_that_does_not_parse_is_named() -> None:
    """Broken TOML is reported with its path."""
    with pytest.raises(Malformed, match=r"pyproject\.toml"):
        declared({"pyproject.toml": b"[project\n"})


def test_extras_may_name_the_project_itself() -> None:
    """`test = ["thing[trio]", ...]` is replaced by what the extra holds; the project is not locked."""
    made = plan(
        {
            "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "thing"
version = "1"
[project.optional-dependencies]
trio = ["trio>=0.20"]
test = ["thing[trio]", "pytest"]
"""
        }
    )
    assert set(made.needs.requirements) == {"trio>=0.20", "pytest"}


def test_requirements_files_follow_includes_and_own_extras() -> None:
    """`-r` is followed, `-e .[x]` stands for the project's extra, options and links are left out."""
    made = plan(
        {
            "setup.py": "from setuptools import setup\nsetup(name='thing', install_requires=['h11'],\n"
            "      extras_require={'http2': ['h2']})\n",
            "requirements/test.txt": "-r base.txt\n-e .[http2]\npytest==7.4  # runner\n"
            "--no-binary :all:\ngit+https://example.invalid/x.git\n",
            "requirements/base.txt": "certifi\n",
        }
    )
    assert set(made.needs.requirements) == {"h11", "certifi", "h2", "pytest==7.4"}
    assert "requirements/test.txt" in made.needs.sources


def test_requirements_files_in_a_cycle_are_malformed() -> None:
    """Two files that include each other end in one clear error."""
    files = {"requirements-test.txt": "-r requirements-dev.txt\n", "setup.py": "",
             "requirements-dev.txt": "-r requirements-test.txt\n"}  # fmt: skip
    with pytest.raises(Malformed, match="include each other"):
        plan(files)


def test_setup_py_is_read_and_not_run() -> None:
    """Literal requirements are found through names and sums; running it would raise."""
    source = b"""
import setuptools
raise SystemExit('must not run')
base = ['a>=1']
tests = base + ['pytest']
setuptools.setup(name='x', python_requires='>=3.9', install_requires=base,
                 extras_require={'test': tests})
"""
    setup = read_setup({"setup.py": source})
    assert setup.requirements == ("a>=1",)
    assert setup.extras == {"test": ("a>=1", "pytest")}
    assert setup.requires_python == ">=3.9"


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"tox.ini": "[testenv]\ndeps =\n    pytest\n    py311: aiohttp\n    -r{toxinidir}/x.txt\n"
                     "[testenv:docs]\ndeps = sphinx\n"}, {"pytest", "aiohttp"}),
        ({"tox.toml": '[env_run_base]\ndeps = ["pytest", "httpx"]\n'}, {"pytest", "httpx"}),
        ({"noxfile.py": "import nox\n@nox.session\ndef tests(session):\n"
                        "    session.install('pytest', 'trio')\n"
                        "@nox.session\ndef lint(session):\n    session.install('ruff')\n"},
         {"pytest", "trio"}),
        ({"pyproject.toml": '[tool.hatch.envs.test]\ndependencies = ["pytest", "anyio"]\n'},
         {"pytest", "anyio"}),
        ({"pyproject.toml": '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\npython = "^3.9"\n'
                            '[tool.poetry.group.test.dependencies]\npytest = "^8.0"\n'},
         {"pytest>=8.0,<9"}),
        ({"pyproject.toml": '[tool.pdm.dev-dependencies]\ntest = ["pytest", "mock"]\n'},
         {"pytest", "mock"}),
        ({"setup.cfg": "[options]\ninstall_requires =\n    h11\n[options.extras_require]\ntests =\n"
                       "    pytest\n    trio\n"}, {"h11", "pytest", "trio"}),
        ({".github/workflows/test.yml": "steps:\n - run: pip install pytest respx ${{ matrix.x }}\n"
                                        " - run: pytest\n"}, {"pytest", "respx"}),
        ({".github/workflows/docs.yml": "- run: pip install mkdocs\n- run: pytest\n"}, {"pytest"}),
        ({"dev-requirements.txt": "pytest\nblack\nfreezegun\n"}, {"pytest", "freezegun"}),
    ],
    ids=["tox.ini", "tox.toml", "nox", "hatch", "poetry", "pdm", "setup.cfg", "ci", "not-docs", "dev"],
)  # fmt: skip
def test_where_test_requirements_are_found(files: dict[str, str], wanted: set[str]) -> None:
    """Each place that projects use is read; linters and documentation tools are not taken along."""
    assert set(plan(files).needs.all()) == wanted


def test_pytest_settings_bring_their_plugins() -> None:
    """Options and settings that only a plugin understands add that plugin."""
    made = plan({"setup.cfg": "[tool:pytest]\naddopts = --cov=x -n auto\nasyncio_mode = auto\n"})
    assert {"pytest-cov", "pytest-xdist", "pytest-asyncio"} <= set(made.needs.requirements)
    assert made.settings.file == "setup.cfg"


def test_environment_of_the_projects_own_runners() -> None:
    """What tox sets for tests is set; what points into tox or at pytest itself is not."""
    made = plan(
        {
            "tox.ini": "[testenv]\ndeps = pytest\nsetenv =\n  PYTHONASYNCIODEBUG = 1\n"
            "  X = {toxinidir}\n  PYTEST_ADDOPTS = -x\n"
        }
    )
    assert made.environment == {"PYTHONASYNCIODEBUG": "1"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("^1.2.3", ">=1.2.3,<2"), ("^0.2.3", ">=0.2.3,<0.3"), ("~1.2", ">=1.2,<1.3"), ("1.2", "==1.2"),
     ("*", ""), (">=2,<3", ">=2,<3"), ("^2 || ^3.1", ">=3.1,<4"), ("^0.0.3", ">=0.0.3,<0.0.4")],
)  # fmt: skip
def test_poetry_constraints(text: str, wanted: str) -> None:
    """Poetry's carets and tildes mean what poetry's documentation says."""
    assert caret(text) == wanted


def test_poetry_tables_with_extras_and_markers() -> None:
    """Extras and markers are kept, paths and git references left out."""
    found = poetry_requirements(
        {
            "python": "^3.9",
            "a": {"version": "^1", "extras": ["x"], "markers": "os_name == 'posix'"},
            "b": {"path": "../b"},
            "c": {"git": "https://example.invalid"},
        }
    )
    assert found == ("a[x]>=1,<2; os_name == 'posix'",)


def test_metadata_tells_extras_from_requirements() -> None:
    """Requires-Dist lines are sorted into run-time requirements and extras; other markers stay."""
    told = read_metadata(
        "Metadata-Version: 2.1\nName: X_y\nVersion: 2\nProvides-Extra: Test\n"
        "Requires-Dist: a\nRequires-Dist: b; python_version < '3.11' and extra == 'test'\n"
        'Requires-Dist: c>1; extra == "test"\n\nbody\n'
    )
    assert told.name == "x-y"
    assert told.requirements == ("a",)
    assert told.extras["test"][1] == "c>1"
    assert told.extras["test"][0].startswith("b; python_version < '3.11' and ")


def test_only_dynamic_requirements_need_the_back_end() -> None:
    """A project that writes everything down is never run to be asked."""
    head = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    static = declared({"pyproject.toml": (head + '[project]\nname = "x"\nversion = "1"\n').encode()})
    dynamic = '[project]\nname = "x"\nversion = "1"\ndynamic = ["dependencies"]\n'
    assert not needs_back_end(static)
    assert needs_back_end(declared({"pyproject.toml": (head + dynamic).encode()}))
    assert needs_back_end(declared({"setup.py": b""}))


@pytest.mark.parametrize(
    ("requires", "names", "merged", "chosen"),
    [(">=3.9", ["3.9", "3.11", "3.13"], date(2025, 6, 1), "3.11"),
     (">=3.12", ["3.12", "3.13"], date(2025, 6, 1), "3.13"),
     (">=3.8", ["3.8", "3.9"], date(2021, 6, 1), "3.11"),
     ("", [], date(2025, 6, 1), "3.11"),
     ("~=3.11", ["3.13"], date(2025, 6, 1), "3.13")],
)  # fmt: skip
def test_python_choice(requires: str, names: list[str], merged: date, chosen: str) -> None:
    """Allowed and named by the project, else allowed; the older of those that exist."""
    classifiers = "".join(f'"Programming Language :: Python :: {name}",' for name in names)
    text = f'[project]\nname = "x"\nversion = "1"\nrequires-python = "{requires}"\n'
    text += f"classifiers = [{classifiers}]\n"
    tree = {"pyproject.toml": text.encode()}
    python, wanted = choose_python(declared(tree), tree, merged, PYTHONS)
    assert python == chosen
    assert wanted


def test_a_python_that_does_not_exist_here_is_said() -> None:
    """requires-python that allows none of ours names what was wanted and what there is."""
    tree = {"pyproject.toml": b'[project]\nname = "x"\nversion = "1"\nrequires-python = "<3.9"\n'}
    with pytest.raises(Unresolvable, match=r"<3\.9 allows none .*3\.11"):
        choose_python(declared(tree), tree, date(2020, 1, 1), PYTHONS)


def test_versions_that_come_from_tags() -> None:
    """A project whose version is read from tags gets the development version after the last release."""
    project = declared({"pyproject.toml": b'[project]\nname = "x"\ndynamic = ["version"]\n'})
    assert tag_variables(project, ("hatchling", "hatch-vcs>=0.3")) == ("SETUPTOOLS_SCM_PRETEND_VERSION",)
    assert tag_variables(project, ("setuptools",)) == ()
    assert next_version("4.13.0") == "4.13.1.dev0"
    assert next_version("2.0rc1") == "2.0.0.dev0"
    assert next_version("") == "0.1.dev0"


CONDA = """\
name: thing
channels:
  - conda-forge
  - defaults
dependencies:
- python=3.11
- conda-forge::pytest=7.1  # the series
- filesystem-spec
# a remark
- numpy >=1.2
- pip:
  - other==1
  - git+https://example.invalid/thing
variables:
  - not-a-package
"""


def test_an_environment_file_of_conda_names_packages_under_dependencies_only() -> None:
    """Channels and other lists of such a file hold no packages; names are those of an index."""
    (found,) = conda_groups({"continuous_integration/environment-3.11.yaml": CONDA.encode()})
    assert found == (
        "continuous_integration/environment-3.11.yaml",
        ("pytest==7.1.*", "fsspec", "numpy>=1.2", "other==1"),
    )
