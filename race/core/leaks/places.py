"""Paths that say what a file is: control files that are kept whole, and tools' caches."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"(^|/)(HEAD|ORIG_HEAD|FETCH_HEAD|MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD|BISECT_LOG|AUTO_MERGE|"
    r"REBASE_HEAD|BISECT_EXPECTED_REV|MERGE_MSG|SQUASH_MSG|COMMIT_EDITMSG|config\.worktree|"
    r"packed-refs|shallow|commondir|gitdir|index|\.git|_?version\.py|"
    r"RECORD|METADATA|PKG-INFO|SOURCES\.txt|top_level\.txt|direct_url\.json|installed-files\.txt|"
    r"\.?[a-z_]*_history|pip\.conf|\.gitconfig|\.pydistutils\.cfg|\.condarc|\.curlrc|\.wgetrc)$"
    r"|(^|/)etc/(environment|hosts|resolv\.conf|gitconfig|profile|bash\.bashrc|profile\.d/.*|apt/apt\.conf.*)$"
    r"|(^|/)(\.(bashrc|bash_profile|profile|zshrc|zshenv|npmrc|pypirc|pip/pip\.conf)|uv\.toml|\.docker/config\.json)$"
    r"|\.git/(rebase-merge|rebase-apply|sequencer|remotes|branches|reftable)/"
    r"|^/repo/(?:docs?/)?(CHANGE|HISTORY|NEWS|RELEASE)[^/]*$"
    r"|(^|/)\.git/(config|description|info/.*|hooks/.*|objects/info/.*|worktrees/.*|modules/[^/]+/(HEAD|config))$"
    r"|/(refs|logs)/(HEAD|heads|tags|remotes|notes|pull|stash|replace|bisect|worktree|original|refs)"
    r"|(^|/)config$|var/lib/dpkg/info/[^/]+\.md5sums$|(^|/)etc/ssl/certs/ca-certificates\.crt$"
)
_CACHES = re.compile(
    r"(^|/)(\.pytest_cache|\.mypy_cache|\.hypothesis|\.ruff_cache|\.pytype|\.pyre|\.tox|\.nox"
    r"|__pycache__|\.coverage(\.[^/]*)?|\.testmondata[^/]*|coverage\.(xml|json|lcov)|lcov\.info|htmlcov|\.cache)(/|$)"
)


def is_control(path: str) -> bool:
    """Whether a file of this path is kept whole for the probes."""
    return bool(_CONTROL.search(path))


def is_cache(path: str) -> bool:
    """Whether a path lies in a cache of a test runner, coverage, type checker or property tester."""
    return bool(_CACHES.search(path))
