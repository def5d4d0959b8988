"""A small project with a fix and hidden tests, its file system on the host, and images made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sabotage import Kit

from race.core.leaks.fragments import Wanted, wanted_from
from race.core.leaks.patchtext import read_patch

BASE = {
    "pyproject.toml": '[project]\nname = "tallybook"\nversion = "1.2"\n',
    "README.md": "# tallybook\n\nCounts things, also from several tasks at once.\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2\n\n- Tallies can be summed.\n",
    "src/tallybook/__init__.py": "from tallybook.counter import Tally\n\n__all__ = ['Tally']\n",
    "src/tallybook/counter.py": (
        "import asyncio\n\n\nclass Tally:\n    def __init__(self):\n        self.count = 0\n"
        "        self._journal = []\n\n    async def add(self, amount):\n        before = self.count\n"
        "        await asyncio.sleep(0)\n        self.count = before + amount\n\n"
        "    def total(self):\n        return sum(self._journal) + self.count\n"
    ),
    "src/tallybook/report.py": "def render(tally):\n    return f'{tally.count} things'\n",
    "tests/test_counter.py": (
        "import asyncio\n\nfrom tallybook import Tally\n\n\ndef test_total():\n"
        "    tally = Tally()\n    asyncio.run(tally.add(2))\n    assert tally.total() == 2\n"
    ),
}
FIXED = BASE | {
    "src/tallybook/counter.py": (
        "import asyncio\n\n\nclass Tally:\n    def __init__(self):\n        self.count = 0\n"
        "        self._journal = []\n        self._turnstile = asyncio.Lock()\n\n"
        "    async def add(self, amount):\n        async with self._turnstile:\n"
        "            before = self.count\n            await asyncio.sleep(0)\n"
        "            self.count = before + amount\n            self._journal_entry(amount, before)\n\n"
        "    def _journal_entry(self, amount, before):\n"
        "        if amount > before and self._turnstile.locked():\n"
        "            self._journal.extend(['big step', amount - before])\n\n"
        "    def total(self):\n        return sum(self._journal) + self.count\n"
    ),
}
HIDDEN = {
    "tests/test_counter.py": BASE["tests/test_counter.py"]
    + (
        "\n\ndef test_concurrent_additions_are_kept():\n    tally = Tally()\n\n"
        "    async def crowd():\n        await asyncio.gather(*(tally.add(1) for _ in range(40)))\n\n"
        "    asyncio.run(crowd())\n    assert tally.count == 40, 'additions of the crowd were lost'\n"
    ),
    "tests/test_turnstile_order.py": (
        "from tallybook import Tally\n\n\ndef test_turnstile_starts_unlocked():\n"
        "    assert not Tally()._turnstile.locked()\n"
    ),
}


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def git(folder: Path, *words: str) -> str:
    """Run git with a fixed identity, without the host's settings."""
    fixed = {
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "Sample Author", "GIT_AUTHOR_EMAIL": "sample@example.invalid",
        "GIT_COMMITTER_NAME": "Sample Author", "GIT_COMMITTER_EMAIL": "sample@example.invalid",
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=os.environ | fixed, capture_output=True, check=True
    )
    return done.stdout.decode()


@dataclass
class Bench:
    """The project's patches, what to look for, and a clean file system to copy."""

    fix_patch: bytes
    test_patch: bytes
    wanted: Wanted
    strict: Wanted
    clean: Path

    def copy(self, target: Path) -> Path:
        """A fresh copy of the clean file system."""
        shutil.copytree(self.clean, target, symlinks=True)
        return target


def fresh_repository(root: Path) -> None:
    """The folder as one commit of a repository that remembers nothing else."""
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "core.logAllRefUpdates", "false")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "The tree at the base commit")
    for name in ("logs", "hooks", "COMMIT_EDITMSG"):
        path = root / ".git" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def level_times(root: Path, moment: int = 1767225600) -> None:
    """One modification time for everything below a folder."""
    for path in [root, *root.rglob("*")]:
        os.utime(path, (moment, moment), follow_symlinks=False)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Patches made by git itself, and the clean file system."""
    root = tmp_path_factory.mktemp("project")
    write(root, BASE)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    write(root, FIXED)
    diff = ("diff", "--binary", "--full-index", "--no-renames")
    fix = git(root, *diff).encode()
    git(root, "checkout", "-q", ".")
    write(root, HIDDEN)
    git(root, "add", "-A")
    tests = git(root, *diff, "--cached").encode()
    clean = tmp_path_factory.mktemp("clean")
    write(clean / "repo", BASE)
    fresh_repository(clean / "repo")
    level_times(clean / "repo")
    write(clean, {"etc/os-release": "NAME=none\n"})
    files = read_patch(fix), read_patch(tests)
    base = [text.encode() for text in BASE.values()]
    return Bench(fix, tests, wanted_from(*files), wanted_from(*files, base), clean)


@pytest.fixture
def tar_of() -> Callable[[Path, Path], Path]:
    """Pack a folder as a root file system."""

    def pack(root: Path, target: Path) -> Path:
        with tarfile.open(target, "w") as archive:
            for path in sorted(root.rglob("*")):
                archive.add(path, str(path.relative_to(root)), recursive=False)
        return target

    return pack


@pytest.fixture
def names() -> str:
    """A prefix for images of these tests."""
    return "race-tests-seal"


@pytest.fixture
def in_one_commit() -> Callable[[Path], None]:
    """Make a folder one commit of a fresh repository, all with one modification time."""

    def commit(root: Path) -> None:
        fresh_repository(root)
        level_times(root)

    return commit


@pytest.fixture(scope="session")
def kit() -> Kit:
    """What a sabotage needs."""
    return Kit(BASE, FIXED, HIDDEN, git, write)
