"""Is the interface of a statement enough to import and call the hidden tests?

For each labelled pull request with tests: the interface is worked out from its changed tests, written
into a statement, read back from the statement's text alone, and turned into stubs on the base tree
with the test patch. Then pytest, in a container without network, collects the changed test files, and
runs the changed tests for a few seconds each. Counted are errors of importing, of missing names and
of refused arguments whose last frame is in a test.

    python tests/bench/interface_stubs.py --labels FILE --clones DIR [--only OWNER/NAME[#PR]] [--output FILE]

Clones are git directories `DIR/<owner>+<name>/repo`. Packages are what was on the index when the pull
request was merged (wheels only, nothing is built), or today's when that set does not work. A pull
request whose tests do not collect with the fix either is set aside and counted.
"""
# ruff: noqa: E501 - tables and a probe that stays as it is

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from race.core.failure_text import ObservedFailure
from race.core.interface.applying import apply_diff
from race.core.interface.extract import Interface
from race.core.interface.items import InterfaceItem, read_interface
from race.core.interface.stubs import stubbed
from race.core.paths import TEST_SIDE, Layout
from race.core.statement.writer import Facts, write
from race.ports import Container, ContainerSpec, Limits
from race.settings import read_workspace
from race.work.base_images import ensure_base
from race.workbench import Workbench

PACKAGES = {
    "agronholm/anyio": "pytest trio hypothesis psutil pytest-mock trustme truststore uvloop "
    "exceptiongroup idna sniffio typing_extensions coverage",
    "django/asgiref": "pytest pytest-asyncio typing_extensions",
    "tox-dev/filelock": "pytest pytest-mock pytest-asyncio virtualenv psutil",
    "encode/httpcore": "pytest certifi h11 h2 hpack hyperframe socksio trio anyio sniffio pytest-httpbin "
    "pytest-trio pytest-asyncio",
    "encode/starlette": "pytest anyio trio httpx requests itsdangerous jinja2 python-multipart pyyaml "
    "typing_extensions aiofiles databases aiosqlite",
    "modelcontextprotocol/python-sdk": "pytest anyio httpx httpx-sse pydantic pydantic-settings starlette "
    "sse-starlette uvicorn python-multipart jsonschema trio pytest-xdist inline-snapshot dirty-equals "
    "pytest-examples click typer websockets opentelemetry-api pyjwt cryptography",
    "taskiq-python/taskiq": "pytest pydantic pycron taskiq-dependencies pytz anyio pytest-mock izulu aiohttp "
    "freezegun polyfactory watchdog tzlocal pytest-asyncio importlib_metadata",
    "redis/redis-py": "pytest pytest-asyncio async-timeout packaging mock numpy cachetools deprecated "
    "importlib-metadata hiredis pyjwt requests cryptography xxhash pytest-profiling ujson",
    "aio-libs/janus": "pytest pytest-asyncio typing_extensions",
    "aio-libs/aiokafka": "pytest pytest-asyncio kafka-python async-timeout docker packaging mock python-snappy "
    "lz4 typing_extensions",
    "dask/distributed": "pytest dask tornado cloudpickle msgpack psutil sortedcontainers tblib toolz zict "
    "locket jinja2 pyyaml packaging urllib3 pytest-timeout bokeh numpy pandas click",
}  # fmt: skip

DISTRIBUTIONS = {"redis/redis-py": "redis", "modelcontextprotocol/python-sdk": "mcp"}
WITHOUT_DEPENDENCIES = {"agronholm/anyio": ("blockbuster",)}
STAND_INS = {"forbiddenfruit.py": b"def curse(*a): pass\ndef reverse(*a): pass\n"}
"""No wheel exists of it and nothing is built here; blockbuster then blocks nothing."""

VERSION_FILE = re.compile(
    r'(?:version[-_]file|write[-_]to|build\.hooks\.vcs\.version-file)\s*=\s*"([^"]+\.py)"'
)
VERSION = b'__version__ = version = "99.0"\n__version_tuple__ = version_tuple = (99, 0)\n'

PROBE = '''
import json, signal
import pytest
found = {"collected": 0, "errors": [], "tests": {}}
KINDS = (ImportError, AttributeError, NameError)
def telling(info):
    """(kind, text) when a name or argument is missing and a test's own line asked for it."""
    if not isinstance(info.value, KINDS + (TypeError,)):
        return None
    last = info.traceback[-1]
    text = str(info.value)
    wrong_call = isinstance(info.value, TypeError) and ("argument" in text or "can't be used in" in text)
    if isinstance(info.value, TypeError) and not wrong_call:
        return None
    file = str(last.path)
    own = file.startswith("/srv/tree/") and ("/test" in file or "conftest" in file)
    return type(info.value).__name__, text, str(last.path), own
@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    result = yield
    report = result.get_result()
    if report.failed:
        found["errors"].append(str(report.longrepr)[-600:])
def _late(signum, frame):
    raise TimeoutError("the probe's limit for one test")
signal.signal(signal.SIGALRM, _late)
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    signal.alarm(8)
    yield
    signal.alarm(0)
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    yield
    if call.excinfo is not None:
        entry = telling(call.excinfo)
        found["tests"].setdefault(item.nodeid, [call.excinfo.type.__name__, str(call.excinfo.value)[:200], entry])
    elif call.when == "call":
        found["tests"].setdefault(item.nodeid, ["", "", None])
    json.dump(found, open("/tmp/probe.json", "w"))
def pytest_collection_finish(session):
    found["collected"] = len(session.items)
    json.dump(found, open("/tmp/probe.json", "w"))
def pytest_sessionfinish(session):
    json.dump(found, open("/tmp/probe.json", "w"))
'''


@dataclass
class Outcome:
    """One pull request. `state`: ok, gap (something is missing), aside (cannot be measured)."""

    name: str
    state: str
    note: str = ""
    items: list[str] = field(default_factory=list)
    bare: str = ""
    seconds: float = 0.0


class Clone:
    """A git directory, read with git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> bytes:
        """Output of a git command."""
        command = ["git", "--git-dir", str(self.folder), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout

    def tree(self, commit: str) -> dict[str, bytes]:
        """All regular files at a commit."""
        with tarfile.open(fileobj=io.BytesIO(self.git("archive", commit))) as tar:
            return {
                member.name: stream.read()
                for member in tar
                if member.isfile() and (stream := tar.extractfile(member))
            }

    def diff(self, base: str, commit: str, paths: list[str]) -> bytes:
        """The diff of some paths."""
        options = ["--binary", "--full-index", "--no-renames"]
        return self.git("diff", *options, base, commit, "--", *paths) if paths else b""


def changed_tests(before: dict[str, bytes], after: dict[str, bytes], paths: list[str]) -> list[str]:
    """Ids of test functions whose code is new or other than it was."""

    def functions(data: bytes) -> dict[str, str]:
        try:
            tree = ast.parse(data)
        except SyntaxError:
            return {}
        found = {}
        for node in tree.body:
            for inner, name in (
                [(item, f"{node.name}::{getattr(item, 'name', '')}") for item in node.body]
                if isinstance(node, ast.ClassDef)
                else [(node, getattr(node, "name", ""))]
            ):
                plain = isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
                if plain and name.rpartition("::")[2].startswith("test"):
                    found[name] = ast.dump(inner)
        return found

    ids = []
    for path in paths:
        if path.endswith(".py") and path in after:
            old = functions(before.get(path, b""))
            ids += [
                f"{path}::{name}"
                for name, code in functions(after[path]).items()
                if old.get(name) != code
            ]
    return ids


def packed(files: dict[str, bytes]) -> bytes:
    """Files as a tar that the container's user owns."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode, member.uid, member.gid = len(data), 0o755, 1000, 1000
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


class Packages:
    """Sets of wheels by project and date, installed once each into a folder and packed."""

    def __init__(self, folder: Path, index: str) -> None:
        self.folder, self.index = folder, index
        self.environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}

    def tar(self, project: str, until: str) -> bytes | None:
        """The site folder as a tar, or None when there is no set of wheels."""
        name = f"{project.replace('/', '+')}-{until[:7] or 'now'}"
        site = self.folder / name
        if not site.exists():
            command = ["uv", "pip", "install", "-q", "--target", str(site), "--python-version", "3.11"]
            command += ["--only-binary", ":all:", "--no-python-downloads"]
            command += ["--exclude-newer", until[:10]] if until else []
            command += ["--index-url", self.index] if self.index else []
            done = subprocess.run(
                [*command, *PACKAGES[project].split(), DISTRIBUTIONS.get(project, project.rpartition("/")[2])],
                capture_output=True, text=True, env=self.environment,
            )  # fmt: skip
            if done.returncode:
                print(done.stderr[-300:], file=sys.stderr)
                shutil.rmtree(site, ignore_errors=True)
                return None
            for extra in WITHOUT_DEPENDENCIES.get(project, ()):
                subprocess.run([*command, "--no-deps", extra], env=self.environment, check=False)
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tar.add(site, arcname="site")
        return stream.getvalue()


def probe(container: Container, files: dict[str, bytes], targets: list[str]) -> dict[str, Any]:
    """Collect the files of these tests and run the tests, over this tree."""
    fresh = "rm -rf /srv/tree /tmp/probe.json; mkdir -p /srv/tree; chmod 1777 /tmp"
    container.run(["sh", "-c", fresh], timeout=60, user="root")
    container.put_tar("/srv/tree", packed(files))
    container.run(["chown", "-R", "1000:1000", "/srv/tree"], timeout=60, user="root")
    command = ["python3", "-m", "pytest", "-q", "-p", "probe", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=", "-o", "xfail_strict=false", "-W", "ignore", "--rootdir", "/srv/tree"]
    done = container.run(
        [*command, *targets],
        timeout=90,
        user="agent",
        workdir="/srv/tree",
        env={
            "PYTHONPATH": "/srv/probe:/srv/tree/src:/srv/tree:/srv/site",
            "HOME": "/tmp",
            "SETUPTOOLS_SCM_PRETEND_VERSION": "99.0",
        },
    )
    raw = container.get("/tmp/probe.json")
    if raw is None:
        tail = done.output.decode(errors="replace")[-600:]
        return {"collected": 0, "errors": [tail], "tests": {}}
    found: dict[str, Any] = json.loads(raw)
    return found


def missing_in(found: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """Collection errors and missing names that the reference run does not have."""
    gaps = [
        error.strip().splitlines()[-1] for error in found["errors"] if error not in reference["errors"]
    ]
    for test, (_, _, entry) in found["tests"].items():
        known = reference["tests"].get(test, [None, None, None])[2]
        if entry is not None and entry[3] and known is None:
            gaps.append(f"{test.rpartition('::')[2]}: {entry[0]}: {entry[1][:160]}")
    return gaps


def measure(
    bench: Workbench, runtime: str, row: dict[str, Any], clones: Path, packages: Packages
) -> Outcome:
    """One labelled pull request."""
    name = f"{row['repo']}#{row['pr']}"
    started = time.monotonic()
    clone = Clone(clones / row["repo"].replace("/", "+") / "repo")
    try:
        base = clone.tree(row["base"])
        changed = (
            clone.git("diff", "--name-only", "--no-renames", row["base"], row["sha"]).decode().split()
        )
    except subprocess.CalledProcessError:
        return Outcome(name, "aside", "the clone lacks its commits")
    layout = Layout(list(base))
    tests = [path for path in changed if layout.kind(path) in TEST_SIDE]
    product = [path for path in changed if path not in tests]
    for path in VERSION_FILE.findall(base.get("pyproject.toml", b"").decode(errors="replace")):
        base.setdefault(path, VERSION)
    before = apply_diff(base, clone.diff(row["base"], row["sha"], tests))
    after = apply_diff(before, clone.diff(row["base"], row["sha"], product))
    ids = changed_tests(base, before, tests)
    if not ids:
        return Outcome(name, "aside", "no test function changed")
    statement = statement_of(row, before, after, ids)
    items = read_interface(statement)
    found = run_all(bench, runtime, row, packages, before, after, items, ids)
    outcome = found if isinstance(found, Outcome) else Outcome(name, "aside", str(found))
    outcome.name, outcome.seconds = name, time.monotonic() - started
    outcome.items = [item.sentence() for item in items]
    return outcome


def statement_of(
    row: dict[str, Any], before: dict[str, bytes], after: dict[str, bytes], ids: list[str]
) -> str:
    """The statement that the deterministic writer makes of the interface."""
    interface = Interface(before, after).items(ids)
    failures = {test: ObservedFailure(outcome="failed", error_type="AssertionError") for test in ids}
    return write(Facts(row["repo"], row["kind"], {}, failures, interface)).text


def run_all(
    bench: Workbench, runtime: str, row: dict[str, Any], packages: Packages,
    before: dict[str, bytes], after: dict[str, bytes], items: list[InterfaceItem], ids: list[str],
) -> Outcome | str:  # fmt: skip
    """With the fix, bare, and with stubs, in one container."""
    spec = ContainerSpec(runtime, Limits(memory_mb=2048, cpus=1, pids=1024), workdir="/", lifetime=900,
                         capabilities=("CHOWN", "DAC_OVERRIDE", "FOWNER"))  # fmt: skip
    for until in (row["merged_at"], ""):
        site = packages.tar(row["repo"], until)
        if site is None:
            continue
        with bench.engine.container(spec) as container:
            container.run(["mkdir", "-p", "/srv/probe"], timeout=30, user="root")
            container.put_tar("/srv", site)
            container.put("/srv/probe", {"probe.py": PROBE.encode(), **STAND_INS})
            fixed = probe(container, after, ids)
            if fixed["errors"] or not fixed["collected"]:
                print(fixed["errors"], file=sys.stderr)
                continue
            bare = probe(container, before, ids)
            stubs = probe(container, stubbed(before, items), ids) if items else bare
        gaps = missing_in(stubs, fixed)
        outcome = Outcome("", "gap" if gaps else "ok", "; ".join(dict.fromkeys(gaps))[:400])
        needed = missing_in(bare, fixed)
        outcome.bare = "; ".join(dict.fromkeys(needed))[:200]
        return outcome
    return "the tests do not collect here with the fix either"


def report(outcomes: list[Outcome]) -> str:
    """The result as a plain table."""
    measured = [item for item in outcomes if item.state != "aside"]
    good = [item for item in measured if item.state == "ok"]
    needing = [item for item in measured if item.bare]
    served = [item for item in needing if item.state == "ok"]
    lines = [
        f"{len(outcomes)} pull requests, {len(measured)} measured, {len(outcomes) - len(measured)} set aside",
        f"importable and callable from the statement alone: {len(good)} of {len(measured)}",
        f"of those that need something new to be imported or called: {len(served)} of {len(needing)}",
        "",
        f"{'pull request':<40} {'state':<6} {'items':>5} {'needs':<6} note",
    ]
    for item in outcomes:
        needs = "yes" if item.bare else "no"
        lines.append(f"{item.name:<40} {item.state:<6} {len(item.items):>5} {needs:<6} {item.note}")
    return "\n".join(lines)


def main() -> int:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument(
        "--packages", type=Path, default=Path(tempfile.gettempdir()) / "race-interface-packages"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.labels.read_text().splitlines() if line.strip()]
    rows = [row for row in rows if row["label"] == 1 and row["has_tests"] and row["repo"] in PACKAGES]
    if options.only:
        rows = [row for row in rows if {row["repo"], f"{row['repo']}#{row['pr']}"} & set(options.only)]
    bench = Workbench(read_workspace(Path.cwd(), dict(os.environ)))
    runtime = ensure_base(bench, "3.11").runtime
    options.packages.mkdir(parents=True, exist_ok=True)
    packages = Packages(options.packages, bench.workspace.index_url)
    outcomes: list[Outcome] = []
    try:
        for row in rows:
            last = measure(bench, runtime, row, options.clones, packages)
            outcomes.append(last)
            needs = f"needs=[{last.bare}]"
            print(
                f"{last.name} {last.state} {last.seconds:.0f} s {needs} {last.note}",
                file=sys.stderr,
                flush=True,
            )
    except KeyboardInterrupt:
        print(f"interrupted; {len(rows) - len(outcomes)} not measured", file=sys.stderr)
    text = report(outcomes)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
