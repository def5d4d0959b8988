"""Probes over what builds, tools and people leave in a file system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from race.core.leaks.forms import printable
from race.core.leaks.layers import Entry
from race.core.leaks.probes_times import TIMES
from race.core.leaks.probing import Answer, NotChecked, Probe, Subject
from race.core.sealed import LeakFinding

_SITE = re.compile(r"/(site-packages|dist-packages)/")
_SYSTEM = re.compile(r"^/(usr|lib|lib64|bin|sbin|etc|opt|var/lib|proc|sys|dev|boot)/")
_HISTORY = re.compile(
    r"/\.?(bash|zsh|sh|ash|fish|python|node_repl|sqlite|psql|lesshst|viminfo|mysql)_?history$"
    r"|/\.(viminfo|lesshst)$|/\.ipython/.*history\.sqlite$|/nvim/shada/|/\.aider[^/]*history[^/]*$"
)
_REJECT = re.compile(
    r"(\.rej|\.orig|\.patch|\.diff|\.bak|\.sw[a-p]|\.kate-swp|~|\.mbox)$|/\.?#[^/]+#?$"
    r"|_(BACKUP|BASE|LOCAL|REMOTE)_\d+\.[^/]+$"
)
_LOCK = re.compile(
    r"(^|/)(uv\.lock|poetry\.lock|pdm\.lock|Pipfile\.lock|pylock(\.[^/]+)?\.toml|requirements\.lock|conda-lock\.ya?ml|pixi\.lock)$"
)
_WHEEL = re.compile(r"\.(whl|egg)$|/[^/]+-\d[^/]*\.tar\.(gz|bz2|xz)$|/[^/]+-\d[^/]*\.zip$")
_PIP_CACHE = re.compile(
    r"/(\.cache/(pip|uv|pypoetry|pre-commit|hatch|pdm)|uv-cache|pip-cache|wheelhouse)(/|$)"
)
_ATTEMPT = re.compile(
    r"^/(submission|trajector|logs/(agent|verifier|artifacts)|solution|tests/test\.sh|eval\.sh|patch\.diff"
    r"|soma|run_tests\.sh)|/\.(claude|codex|openhands|swe-agent|cursor|aider)[^/]*(/|$)"
    r"|/(preds\.json|[^/]*\.traj(\.json)?|run_instance\.log|solve\.sh|eval\.sh|model\.patch|gold[^/]*\.(patch|diff)"
    r"|test_output\.txt|soma-agent\.patch|report\.json|solution\.(sh|py|patch|diff))$"
)
_HASHED = re.compile(r"(?m)^Version:\s*(\S*?[+.]g?([0-9a-f]{7,40})\S*)\s*$")
_TEST_RUN = re.compile(r"^/(tmp|var/tmp)/pytest-of-[^/]+(/|$)")
_TELLING = re.compile(r"^/(root|home/[^/]+)/.*|^/[^/]+$|^/(var/log|srv|mnt|media|workspace|build)/.+")
_NOTES = re.compile(r"\.(sh|py|log|txt|patch|diff|md|ipynb|jsonl?|toml|ya?ml|out|err)$")
_INSTALLED = re.compile(
    r"/lib(64)?/(python|pypy)[\d.]+/|/(site|dist)-packages/|/conda-meta/|/(mini|ana|micro)?conda\d?/|/miniforge\d?/"
    r"|/\.(pyenv|asdf|nvm|rustup|cargo|rbenv)/"
)
"""What an installation of an interpreter or a virtual environment brings, wherever it lies."""

_SKELETON = re.compile(
    r"/\.(bashrc|profile|bash_logout|gitconfig|dockerenv)$|/\.(config|local|cache)/"
    r"|^/var/log/(apt|dpkg|alternatives|bootstrap|faillog|lastlog|btmp|wtmp|fontconfig)"
)
_SHIPPED = re.compile(
    r"^/usr/(share/python-wheels|lib/python[^/]*/ensurepip|local/lib/python[^/]*/ensurepip)/"
    r"|/ensurepip/_bundled/|/(virtualenv/seed|test/wheeldata|setuptools/_vendor)/"
)
_NAMED_VERSION = re.compile(r"/[^/]*\+g?[0-9a-f]{7,40}[^/]*\.(dist|egg)-info/")
_FROM_COMMIT = re.compile(r"commit_id|/(archive|tarball|zipball|tar\.gz|zip)/[0-9a-f]{7,40}\b")
_COMMIT = re.compile(
    r"[+.]g[0-9a-f]{7,40}\b|commit_id\w*\s*(:[^=]*)?=\s*['\"]g?[0-9a-f]{7,40}|'g[0-9a-f]{7,40}'"
)
_CREDENTIALS = re.compile(
    r"/\.(netrc|git-credentials|pypirc)$|/\.docker/config\.json$|/\.ssh/(id_[a-z0-9]+|[^/]+\.pem)$"
    r"|/\.aws/credentials$|/\.config/gh/hosts\.yml$"
)
_LIST_OF_CHANGES = re.compile(r"(^|/)(CHANGE|HISTORY|NEWS|RELEASE)[^/]*$", re.IGNORECASE)
_NEWS = re.compile(
    r"(^|/)(news|newsfragments|\.?changes|\.changeset|changelog\.d|changelogs|towncrier|release-?notes)/"
    r"([^/]+/)?[^/]+$",
    re.IGNORECASE,
)


def _seen(subject: Subject) -> Iterator[tuple[int, Entry]]:
    """Every file of every layer, with its layer; those of the grader's own folders left out."""
    for number, layer in enumerate(subject.view.layers):
        for entry in layer.entries:
            if entry.kind in "fh" and not any(entry.path.startswith(p) for p in subject.allowed):
                yield number, entry


def _tracked(subject: Subject) -> set[str]:
    repository = subject.view.repository
    return {path for path, _ in repository.index} if repository else set()


def _is_tracked(subject: Subject, path: str, tracked: set[str]) -> bool:
    below = subject.view.below(path)
    if below is None or subject.view.repository is None:
        return below is not None and subject.view.repository is None
    return below in tracked


def _listed(entries: Iterable[tuple[int, Entry]], what: str) -> list[LeakFinding]:
    return [
        LeakFinding(path=entry.path, layer=number, what=what, excerpt=f"{entry.size} bytes")
        for number, entry in entries
    ]


def _history(subject: Subject) -> Answer:
    found = ((n, e) for n, e in _seen(subject) if e.size and _HISTORY.search(e.path))
    return _listed((p for p in found if not _SITE.search(p[1].path)), "a history of commands")


def _temporary(subject: Subject) -> Answer:
    places = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/user/")
    found = ((n, e) for n, e in _seen(subject) if e.size and e.path.startswith(places))
    runs = (
        (number, entry)
        for number, layer in enumerate(subject.view.layers)
        for entry in layer.entries
        if entry.kind == "d" and _TEST_RUN.search(entry.path)
    )
    return [*_listed(found, "left in a temporary folder"), *_listed(runs, "a folder of a test run")]


def _home(subject: Subject) -> Answer:
    """Scripts, logs and patches in home folders and at the top of the file system."""
    found = (
        (n, e)
        for n, e in _seen(subject)
        if e.size
        and _TELLING.search(e.path)
        and _NOTES.search(e.path)
        and not _SKELETON.search(e.path)
        and not _INSTALLED.search(e.path)
        and subject.view.below(e.path) is None
    )
    tracked = _tracked(subject)
    secret = (
        (n, e)
        for n, e in _seen(subject)
        if e.size
        and _CREDENTIALS.search(e.path)
        and not _SITE.search(e.path)
        and not _is_tracked(subject, e.path, tracked)
    )
    return [*_listed(found, "a script, log or note left behind"), *_listed(secret, "a key or password")]


def _rejects(subject: Subject) -> Answer:
    tracked = _tracked(subject)
    return _listed(
        (
            (n, e)
            for n, e in _seen(subject)
            if _REJECT.search(e.path)
            and "/.git/" not in e.path
            and not _is_tracked(subject, e.path, tracked)
            and not (_SYSTEM.search(e.path) and subject.view.below(e.path) is None)
            and not _SITE.search(e.path)
        ),
        "a patch, reject or backup file",
    )


def _locks(subject: Subject) -> Answer:
    if subject.view.repository is None:
        return NotChecked("without a git index, a lock file's age is not known")
    tracked = _tracked(subject)
    return _listed(
        (
            (n, e)
            for n, e in _seen(subject)
            if _LOCK.search(e.path)
            and subject.view.below(e.path) is not None
            and subject.view.below(e.path) not in tracked
        ),
        "a lock file that the base commit does not have",
    )


def recorded_files(subject: Subject) -> set[tuple[str, int]]:
    """Path and size of every file that an installed distribution's RECORD lists as its own.

    Some ship archives as data (setuptools does, for its tests). What such an archive holds is still
    unpacked and searched by the probe for pieces of fix and tests.
    """
    found: set[tuple[str, int]] = set()
    for number, path, text in subject.view.kept():
        if not path.endswith(".dist-info/RECORD") or not subject.view.shown(path, number):
            continue
        site = path.rsplit("/", 2)[0]
        for line in text.splitlines():
            name, _, size = line.rpartition(",")
            name = name.rpartition(",")[0]
            if size.isdigit() and ".." not in name:
                found.add((f"{site}/{name}", int(size)))
    return found


def _wheels(subject: Subject) -> Answer:
    tracked, recorded = _tracked(subject), recorded_files(subject)
    return _listed(
        (
            (n, e)
            for n, e in _seen(subject)
            if (_WHEEL.search(e.path) or _PIP_CACHE.search(e.path))
            and e.size
            and not _SHIPPED.search(e.path)
            and (e.path, e.size) not in recorded
            and not _is_tracked(subject, e.path, tracked)
            and not (_SITE.search(e.path) and not e.path.endswith((".whl", ".egg")))
        ),
        "a distribution archive or an installer's cache",
    )


def _versions(subject: Subject) -> Answer:
    found = list[LeakFinding]()
    tracked = _tracked(subject)
    paths = (path.removeprefix("src/").split("/") for path in subject.wanted.product_paths)
    packages = {steps[0] for steps in paths if len(steps) > 1}
    for number, entry in _seen(subject):
        match = _NAMED_VERSION.search(entry.path)
        if match:
            what = "a folder of a version that carries a commit id"
            path = entry.path[: match.end() - 1]
            found.append(LeakFinding(path=path, layer=number, what=what, excerpt=match.group()[1:-1]))
    for number, path, text in subject.view.kept():
        if path.endswith(("/METADATA", "/PKG-INFO")):
            head = text.split("\n\n", 1)[0]
            match = _HASHED.search(head)
            if match and re.search(r"[+.]g[0-9a-f]{7,40}", match.group(1)):
                what = "a version that carries a commit id"
                found.append(LeakFinding(path=path, layer=number, what=what, excerpt=match.group(1)))
        below = subject.view.below(path)
        installed = bool(_SITE.search(path)) and path.split("/")[-2] in packages
        if path.endswith("version.py") and (installed or (below is not None and below not in tracked)):
            match = _COMMIT.search(text)
            if match:
                what = "a generated version with a commit id"
                found.append(LeakFinding(path=path, layer=number, what=what, excerpt=match.group()))
        if path.endswith("/direct_url.json") and _FROM_COMMIT.search(text):
            what = "an installation record with a commit id"
            found.append(LeakFinding(path=path, layer=number, what=what, excerpt=text[:160]))
    return found


def _attempts(subject: Subject) -> Answer:
    tracked = _tracked(subject)
    return _listed(
        (
            (n, e)
            for n, e in _seen(subject)
            if _ATTEMPT.search(e.path)
            and not _SITE.search(e.path)
            and not _is_tracked(subject, e.path, tracked)
            and "/.git/" not in e.path
            and not (_SYSTEM.search(e.path) and subject.view.below(e.path) is None)
        ),
        "left by an agent's attempt or a grading",
    )


def _news(subject: Subject) -> Answer:
    """News fragments named after the pull request or its issues."""
    if not subject.numbers:
        return NotChecked("no pull request or issue number was given")
    found = list[LeakFinding]()
    if not subject.wanted.base_known:
        found += _told_changes(subject)
    for number, entry in _seen(subject):
        below = subject.view.below(entry.path)
        if below is None or not _NEWS.search(below):
            continue
        stem = below.rsplit("/", 1)[-1]
        for pr in subject.numbers:
            if re.match(rf"\D*{re.escape(pr)}(\D|$)", stem):
                what = f"a news entry about #{pr}"
                found.append(LeakFinding(path=entry.path, layer=number, what=what, excerpt=stem))
    return found


def _told_changes(subject: Subject) -> Iterator[LeakFinding]:
    """Lists of changes in the tree that name the pull request or its issues."""
    numbers = "|".join(map(re.escape, subject.numbers))
    for number, path, text in subject.view.kept():
        below = subject.view.below(path)
        match = re.search(rf"(?<![\w/])#(?:{numbers})\b|/(?:pull|issues)/(?:{numbers})\b", text)
        if below is not None and match and _LIST_OF_CHANGES.search(below):
            what = f"a list of changes that names {match.group()}"
            yield LeakFinding(path=path, layer=number, what=what, excerpt=_around(text, match.start()))


def _around(text: str, at: int) -> str:
    """The line of a place."""
    return printable(text[text.rfind("\n", 0, at) + 1 :].split("\n", 1)[0].encode())


PROBES = (
    Probe("version-strings", "python", "no version that carries a commit id", _versions),
    Probe("newer-lock-files", "python", "no lock file that the base commit lacks", _locks),
    Probe("wheels-and-caches", "python", "no distribution archive, no installer's cache", _wheels),
    Probe("reject-files", "files", "no reject, backup or patch file", _rejects),
    Probe("shell-history", "files", "no history of commands", _history),
    Probe("temporary-files", "files", "nothing left in temporary folders", _temporary),
    Probe("left-over-files", "files", "no script, log or note left in homes or at the top", _home),
    Probe("attempt-leftovers", "files", "nothing left by an attempt or a grading", _attempts),
    Probe("news-entries", "files", "no news entry about the change", _news),
    TIMES,
)
