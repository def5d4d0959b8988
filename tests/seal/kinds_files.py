"""Sabotaged file systems: what is left lying about, each found by the right probe at its place."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from sabotage import (
    FIX_LINE,
    NAME,
    Kit,
    Sabotages,
    drop,
    fresh,
    registering,
)

SABOTAGES: Sabotages = {}
sabotage = registering(SABOTAGES)


SABOTAGES["hidden test file itself"] = (
    "new-files", "/repo/tests/test_turnstile_order.py",
    drop("repo/tests/test_turnstile_order.py", "import tallybook\n"),
)  # fmt: skip
SABOTAGES["script that solves"] = (
    "attempt-leftovers", "/solution/solve.sh", drop("solution/solve.sh", "git apply /fix\n"),
)  # fmt: skip
SABOTAGES["shell history"] = (
    "shell-history", "/root/.bash_history", drop("root/.bash_history", "git fetch origin\n"),
)  # fmt: skip
SABOTAGES["test log in a temporary folder"] = (
    "temporary-files", "/tmp/run.log", drop("tmp/run.log", f"PASSED tests/test_counter.py::{NAME}\n"),
)  # fmt: skip
SABOTAGES["name of a hidden test in a log"] = (
    "hidden-test-names", "/var/log/ci.txt", drop("var/log/ci.txt", f"1 failed: {NAME} (0.2 s)\n"),
)  # fmt: skip
SABOTAGES["name of a hidden test in a file's name"] = (
    "hidden-test-names", f"/srv/results/{NAME}.xml", drop(f"srv/results/{NAME}.xml", ""),
)  # fmt: skip
SABOTAGES["generated version with a commit id"] = (
    "version-strings", "/repo/src/tallybook/_version.py",
    drop("repo/src/tallybook/_version.py", "__version__ = '1.3'\ncommit_id = 'gf8b9f011e'\n"),
)  # fmt: skip
SABOTAGES["note in a home folder"] = (
    "left-over-files", "/home/agent/plan.md", drop("home/agent/plan.md", "use a lock\n"),
)  # fmt: skip
SABOTAGES["trajectory of an attempt"] = (
    "attempt-leftovers", "/data/1.traj.json", drop("data/1.traj.json", "{}"),
)  # fmt: skip
SABOTAGES["one exact line in an untracked note"] = (
    "work-tree", "/repo/NOTES", drop("repo/NOTES", f"try this: {FIX_LINE}\n"),
)  # fmt: skip
SABOTAGES["one line, other case and spacing"] = (
    "elsewhere", "/opt/hint", drop("opt/hint", "IF amount>before  AND\n self._TURNSTILE.locked( ) :\n"),
)  # fmt: skip
SABOTAGES["one line, other punctuation"] = (
    "elsewhere", "/opt/hint",
    drop("opt/hint", '["if", "amount", ">", "before", "and", "self->_turnstile", "locked"]'),
)  # fmt: skip
SABOTAGES["UTF-16"] = (
    "elsewhere", "/opt/hint", drop("opt/hint", FIX_LINE.encode("utf-16")),
)  # fmt: skip


@sabotage("news about the change in the tree", "work-tree", "/repo/CHANGELOG.md")
def _(root: Path, kit: Kit) -> None:
    shutil.rmtree(root / "repo/.git")
    text = kit.base["CHANGELOG.md"] + f"\n## next\n\n- Now `{FIX_LINE}` guards additions.\n"
    kit.write(root / "repo", {"CHANGELOG.md": text})
    fresh(root / "repo", kit)


SABOTAGES["news entry by number"] = (
    "news-entries", "/repo/newsfragments/7.bugfix.md",
    drop("repo/newsfragments/7.bugfix.md", "Fixed.\n"),
)  # fmt: skip


@sabotage("modification time singles the fixed file out", "file-times", "/repo/src/tallybook/counter.py")
def _(root: Path, kit: Kit) -> None:
    os.utime(root / "repo/src/tallybook/counter.py", (1767240000, 1767240000))


@sabotage("write-ahead log of a database", "elsewhere", "/var/lib/notes/n.db-wal")
def _(root: Path, kit: Kit) -> None:
    folder = root / "var/lib/notes"
    folder.mkdir(parents=True)
    base = sqlite3.connect(folder / "live.db")
    base.execute("pragma journal_mode=wal")
    base.execute("create table notes (text text)")
    base.execute("insert into notes values (?)", (kit.counter,))
    base.commit()
    shutil.copy(folder / "live.db-wal", folder / "n.db-wal")
    base.close()
    (folder / "live.db").unlink()


@sabotage("modification times of fix and test, both later", "file-times", "/repo/tests/test_counter.py")
def _(root: Path, kit: Kit) -> None:
    for path in ("tests/test_counter.py", "src/tallybook/counter.py"):
        os.utime(root / "repo" / path, (1767225700, 1767225700))


@sabotage("name of a hidden test as the target of a link", "hidden-test-names", "/srv/last")
def _(root: Path, kit: Kit) -> None:
    (root / "srv").mkdir()
    (root / "srv/last").symlink_to(f"/nowhere/{NAME}.xml")


SABOTAGES["hidden tests in UTF-16"] = (
    "hidden-tests-anywhere", "/opt/u",
    lambda root, kit: drop("opt/u", kit.hidden["tests/test_counter.py"].encode("utf-16"))(root, kit),
)  # fmt: skip
SABOTAGES["package index in settings"] = (
    "proxy-settings", "/etc/pip.conf", drop("etc/pip.conf", "[global]\nindex-url = http://10.0.0.9/s\n"),
)  # fmt: skip
