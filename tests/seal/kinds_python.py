"""Sabotaged installations, byte-code and caches: each found by the right probe at its place."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from pathlib import Path

from sabotage import (
    FIX_LINE,
    NAME,
    SITE,
    Kit,
    Sabotages,
    compiled,
    drop,
    recorded,
    registering,
    tarred,
    zipped,
)

SABOTAGES: Sabotages = {}
sabotage = registering(SABOTAGES)


@sabotage("fixed copy in site-packages", "installed-copies", f"/{SITE}/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {f"{SITE}/tallybook/counter.py": kit.counter})


@sabotage("fixed copy, vouched for by its RECORD", "installed-copies", f"/{SITE}/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {f"{SITE}/tallybook/counter.py": kit.counter})
    recorded(root, "tallybook-1.3", {"tallybook/counter.py": kit.counter})


@sabotage("copy in another distribution", "installed-copies", f"/{SITE}/other/_vendored.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {f"{SITE}/other/_vendored.py": kit.counter})
    recorded(root, "other-2.0", {"other/_vendored.py": kit.counter})


@sabotage("wheel in a cache", "archives", "/root/.cache/pip/wheels/tallybook-1.3-py3-none-any.whl")
def _(root: Path, kit: Kit) -> None:
    wheel = zipped({"tallybook/counter.py": kit.counter})
    drop("root/.cache/pip/wheels/tallybook-1.3-py3-none-any.whl", wheel)(root, kit)


@sabotage("source archive in dist", "archives", "/repo/dist/tallybook-1.3.tar.gz")
def _(root: Path, kit: Kit) -> None:
    data = tarred({"tallybook-1.3/src/tallybook/counter.py": kit.counter})
    drop("repo/dist/tallybook-1.3.tar.gz", data)(root, kit)


@sabotage("any wheel left behind", "wheels-and-caches", "/srv/wheels/other-1.0-py3-none-any.whl")
def _(root: Path, kit: Kit) -> None:
    drop("srv/wheels/other-1.0-py3-none-any.whl", zipped({"other.py": "x = 1\n"}))(root, kit)


@sabotage("fixed copy under build/lib", "build-residue", "/repo/build/lib/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", {"build/lib/tallybook/counter.py": kit.counter})


@sabotage("byte-code of fixed code", "byte-code", "/repo/src/tallybook/__pycache__/counter.")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.fixed)
    compiled(root / "repo/src/tallybook")
    kit.write(root / "repo", kit.base)


@sabotage("byte-code of hidden tests", "byte-code", "/repo/tests/__pycache__/test_counter.")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", kit.hidden)
    compiled(root / "repo/tests")
    kit.write(root / "repo", kit.base)
    (root / "repo/tests/test_turnstile_order.py").unlink()


@sabotage("test ids in pytest's cache", "tool-caches", "/repo/.pytest_cache/v/cache/nodeids")
def _(root: Path, kit: Kit) -> None:
    nodeids = json.dumps([f"tests/test_counter.py::{NAME}"])
    kit.write(root / "repo", {".pytest_cache/v/cache/nodeids": nodeids})


@sabotage("test contexts in coverage's database", "tool-caches", "/repo/.coverage")
def _(root: Path, kit: Kit) -> None:
    base = sqlite3.connect(root / "repo/.coverage")
    base.execute("create table context (id integer, context text)")
    base.execute("insert into context values (1, ?)", (f"tests.test_counter.{NAME}|run",))
    base.commit()
    base.close()


@sabotage("names in a type checker's cache", "tool-caches", "/repo/.mypy_cache/")
def _(root: Path, kit: Kit) -> None:
    data = json.dumps({"names": {"_turnstile": {"kind": "Mdef"}, "_journal_entry": {"kind": "Mdef"}}})
    kit.write(root / "repo", {".mypy_cache/3.11/tallybook/counter.data.json": data})


@sabotage("property tester's database", "tool-caches", "/repo/.hypothesis/")
def _(root: Path, kit: Kit) -> None:
    kit.write(root / "repo", {".hypothesis/examples/names": f"tests/test_counter.py {NAME}\n"})


@sabotage("file list with a new test", "listings", "/repo/src/tallybook.egg-info/SOURCES.txt")
def _(root: Path, kit: Kit) -> None:
    listing = "README.md\nsrc/tallybook/counter.py\ntests/test_turnstile_order.py\n"
    kit.write(root / "repo", {"src/tallybook.egg-info/SOURCES.txt": listing})


@sabotage("version with a commit id", "version-strings", f"/{SITE}/tallybook-1.3.dist-info/METADATA")
def _(root: Path, kit: Kit) -> None:
    text = "Metadata-Version: 2.1\nName: tallybook\nVersion: 1.3.dev4+gf8b9f01\n"
    kit.write(root, {f"{SITE}/tallybook-1.3.dist-info/METADATA": text})


SABOTAGES["lock file that the base lacks"] = (
    "newer-lock-files", "/repo/uv.lock", drop("repo/uv.lock", "version = 1\n"),
)  # fmt: skip
SABOTAGES["reject file"] = (
    "reject-files", "/repo/src/tallybook/counter.py.rej",
    drop("repo/src/tallybook/counter.py.rej", f"@@ -1 +1 @@\n+        {FIX_LINE}\n"),
)  # fmt: skip


@sabotage(
    "byte-code of fixed code under another name", "byte-code", "/opt/tools/__pycache__/gate.cpython-"
)
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {"opt/tools/gate.py": kit.counter.replace("async def add", "async def put")})
    compiled(root / "opt/tools")
    (root / "opt/tools/gate.py").unlink()


@sabotage(
    "stale byte-code beside an innocent source", "byte-code", "/opt/tools/__pycache__/gate.cpython-"
)
def _(root: Path, kit: Kit) -> None:
    kit.write(root, {"opt/tools/gate.py": kit.counter})
    compiled(root / "opt/tools")
    kit.write(root, {"opt/tools/gate.py": "x = 1\n"})


@sabotage(
    "hidden test among pytest's last failures", "tool-caches", "/repo/.pytest_cache/v/cache/lastfailed"
)
def _(root: Path, kit: Kit) -> None:
    failed = json.dumps({f"tests/test_counter.py::{NAME}": True})
    kit.write(root / "repo", {".pytest_cache/v/cache/lastfailed": failed})


@sabotage(
    "copy with a renamed attribute, in another distribution",
    "installed-copies",
    f"/{SITE}/other/gate.py",
)
def _(root: Path, kit: Kit) -> None:
    renamed = kit.counter.replace("_turnstile", "_gate").replace("    ", "\t")
    kit.write(root, {f"{SITE}/other/gate.py": renamed})


@sabotage("copy with every name changed", "installed-copies", f"/{SITE}/abacus/engine.py")
def _(root: Path, kit: Kit) -> None:
    names = {"_turnstile": "_gate", "_journal_entry": "_note", "_journal": "_log", "before": "prior",
             "amount": "delta", "Tally": "Abacus", "count": "beads"}  # fmt: skip
    copy = re.sub(r"\w+", lambda found: names.get(found.group(), found.group()), kit.counter)
    kit.write(root, {f"{SITE}/abacus/engine.py": copy.replace("    ", "\t")})


@sabotage("page of a coverage report", "tool-caches", "/repo/htmlcov/z_counter_py.html")
def _(root: Path, kit: Kit) -> None:
    words = [
        f"<b>{html.escape(word)}</b>" if word.strip() else word
        for word in re.split(r"(\W)", kit.counter)
    ]
    page = "<!DOCTYPE html>\n<html><body><p>" + "".join(words) + "</p></body></html>"
    kit.write(root / "repo", {"htmlcov/z_counter_py.html": page})
