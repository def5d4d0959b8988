"""Which hits are a leak. A hit is innocent when it is the language that everybody writes.

Innocent are files that an installed distribution or the system's package list vouches for by digest
(unless they are a copy of a file that the patch touches, or hold several neighbouring new lines),
and, when no base tree was given, tracked files of the work tree that hold a line or two by chance.
What innocent files hold is common, and no evidence elsewhere. Everything else is a leak.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from race.core.leaks.forms import squeezed, worded
from race.core.leaks.fragments import Fragment, Source, Wanted
from race.core.leaks.gitstore import is_blob
from race.core.leaks.layers import Hit, ImageView
from race.core.leaks.patchtext import PatchedFile
from race.core.leaks.weight import ENOUGH

_STDLIB = re.compile(r"/lib/python3(\.\d+)?/(?!site-packages/|dist-packages/)")
_MERGED = ("/lib/", "/lib64/", "/bin/", "/sbin/")
_TESTLIKE = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


@dataclass(frozen=True)
class Leak:
    """A guilty hit: which pieces of fix or tests, of how many distinct lines."""

    hit: Hit
    layer: int
    source: Source
    fragments: tuple[Fragment, ...]
    excerpt: str
    exact: bool

    @property
    def names_only(self) -> bool:
        """Whether only names of hidden tests were found."""
        return all(f.form == "name" for f in self.fragments)

    @property
    def what(self) -> str:
        """The leak in words."""
        files = sorted({f.file for f in self.fragments})
        of = files[0] + (f" and {len(files) - 1} more" if len(files) > 1 else "")
        if all(f.form == "commit" for f in self.fragments):
            return "the id of a commit that nothing may name"
        if self.names_only:
            count = len(self.fragments)
            return f"{count} hidden test name{'s' * (count > 1)} of {of}"
        lines = len({n for f in self.fragments for n in f.lines})
        whole = "the fix" if self.source == "fix" else "the hidden tests"
        amount = f"{lines} line{'s' * (lines != 1)}" if lines else "a place where lines were removed"
        how = "exact" if self.exact else "reformatted"
        if all(f.form == "shape" for f in self.fragments):
            how = "with other names"
        return f"{amount} of {whole} of {of}, {how}"


def distinct_lines(fragments: Iterable[Fragment]) -> int:
    """How many of the patch's new lines some pieces cover together."""
    return len({number for fragment in fragments for number in fragment.lines})


class Judge:
    """Weighs the hits of one image."""

    def __init__(self, view: ImageView, wanted: Wanted) -> None:
        self._view = view
        self._wanted = wanted
        self._tails = {
            tail for p in wanted.product_paths | wanted.test_paths if (tail := _tail(p)) is not None
        }

    def leaks(self) -> list[Leak]:
        """All guilty hits, in the order of layer and path."""
        innocent: list[Hit] = []
        base = self._in_base | self._named
        suspects: list[tuple[int, Hit, Source, list[Fragment]]] = []
        for number, layer in enumerate(self._view.layers):
            for hit in layer.hits:
                for source, pieces in self._by_source(hit).items():
                    fragments = [f for f in pieces if f not in base]
                    if not fragments:
                        continue
                    if self._innocent(hit, number, source, fragments):
                        innocent.append(hit)
                    else:
                        suspects.append((number, hit, source, fragments))
        common = {n for hit in innocent for n, _, _ in hit.found}
        needles = {self._wanted.fragments[n] for n in common}
        as_it_lies: dict[str, set[Fragment]] = {}
        for hit in innocent:
            if not hit.inside:
                as_it_lies.setdefault(hit.path, set()).update(
                    self._wanted.fragments[n] for n, _, _ in hit.found
                )
        found = []
        for number, hit, source, fragments in suspects:
            # What a file may hold as it lies it may also hold when it is read without its escapes.
            excused = as_it_lies.get(hit.path, set()) if self._is_copy(hit) else needles
            guilty = [f for f in fragments if f not in excused]
            if guilty:
                found.append(self._leak(hit, number, source, guilty))
        return sorted(found, key=lambda leak: (leak.layer, leak.hit.path, leak.hit.inside, leak.source))

    def _leak(self, hit: Hit, layer: int, source: Source, guilty: list[Fragment]) -> Leak:
        index = {f: n for n, f in enumerate(self._wanted.fragments) if f in set(guilty)}
        texts = {n: (text, exact) for n, text, exact in hit.found}
        shown = [texts[index[f]] for f in guilty if texts[index[f]][0]]
        excerpt = max((t for t, _ in shown), key=len, default="")
        return Leak(hit, layer, source, tuple(guilty), excerpt, any(exact for _, exact in shown))

    def _by_source(self, hit: Hit) -> dict[Source, list[Fragment]]:
        grouped: dict[Source, list[Fragment]] = {}
        for number, _, _ in hit.found:
            fragment = self._wanted.fragments[number]
            grouped.setdefault(fragment.source, []).append(fragment)
        return grouped

    def _innocent(self, hit: Hit, layer: int, source: Source, fragments: list[Fragment]) -> bool:
        if self._vouched(hit):
            if self._is_copy(hit):
                return False
            heavy = [f for f in fragments if len(f.lines) > 1 and f.weight >= 3 * ENOUGH]
            return distinct_lines(heavy) < 3 and distinct_lines(fragments) < 6
        tracked = self._tracked_path(hit, layer)
        if tracked is not None and "spelled" in hit.how:
            return True
        if self._wanted.base_known:
            return False
        return tracked is not None and self._idiom(tracked, source, fragments)

    @cached_property
    def _in_base(self) -> set[Fragment]:
        """Pieces that touched files of the work tree hold though the patch is not applied to them.

        Only needed without a base tree: a file that holds the old side of each hunk and the new
        side of none is the base's own, and what is in it cannot be a leak.
        """
        found: set[Fragment] = set()
        if self._wanted.base_known:
            return found
        for source, files in (("fix", self._wanted.fix_files), ("tests", self._wanted.test_files)):
            for file in files:
                text = self._view.text(f"{self._view.workdir}/{file.path}")
                if text is None or standing(file, text.encode("latin-1")) != "old":
                    continue
                forms = (squeezed(text.encode("latin-1")), worded(text.encode("latin-1")))
                found.update(
                    f
                    for f in self._wanted.fragments
                    if f.source == source and f.form != "shape" and f.needle in forms[f.wordy]
                )
        return found

    @cached_property
    def _named(self) -> set[Fragment]:
        """Names of new test modules that tracked files of the work tree have already."""
        added = {f.path for f in self._wanted.test_files if f.added}
        stems = {
            path.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower().encode()
            for path in self._index
            if path not in added
        }
        return {f for f in self._wanted.names if f.needle in stems}

    def _idiom(self, path: str, source: Source, fragments: list[Fragment]) -> bool:
        """Whether a tracked file of the work tree may hold these pieces by chance."""
        touched = self._wanted.product_paths if source == "fix" else self._wanted.test_paths
        lines = distinct_lines(fragments)
        if path in touched:
            own = [f for f in fragments if f.file == path]
            has_seams = any(f.form == "seam" and f.file == path for f in self._wanted.fragments)
            if has_seams:
                return not any(f.form == "seam" for f in own)
            return not own
        names = [f for f in fragments if f.form == "name"]
        if names and not _TESTLIKE.search(path):
            return False
        if path.endswith((".py", ".pyi", ".pyx")):
            namesake = path.rsplit("/", 1)[-1] in {p.rsplit("/", 1)[-1] for p in touched}
            share = 0.5 if namesake else 0.9
            return lines < 4 or lines < share * self._line_count(fragments[0])
        if lines == 0:
            return True
        if source == "tests" and lines < 8:
            # Documentation calls the product as tests do, but in nobody's particular words.
            return all(f.weight < 2.2 * ENOUGH * max(1, len(f.lines)) for f in fragments)
        if lines < 8 and all(self._spread[f] > 2 for f in fragments):
            return True  # what several files of the project hold, none of them patched
        longest = max((len(f.needle) for f in fragments if f.form != "name"), default=0)
        repeated = all(self._spread[f] > 1 for f in fragments if f.form == "line")
        return lines < 2 and (longest < 40 or repeated)

    def _line_count(self, like: Fragment) -> int:
        """How many distinct lines are looked for of the patched file that a piece comes from."""
        same = (f for f in self._wanted.fragments if (f.source, f.file) == (like.source, like.file))
        return distinct_lines(same)

    @cached_property
    def _spread(self) -> Counter[Fragment]:
        counts: Counter[Fragment] = Counter()
        for number, layer in enumerate(self._view.layers):
            for hit in layer.hits:
                if not hit.how and self._view.shown(hit.path, number):
                    counts.update(self._wanted.fragments[n] for n, _, _ in hit.found)
        return counts

    def _is_copy(self, hit: Hit) -> bool:
        """Whether the place is named like a file that the patches touch, outside the work tree's own."""
        inside = hit.inside.rsplit("!", 1)[-1] if hit.inside and "git-object" not in hit.how else ""
        return any(_tail(p) in self._tails for p in (hit.path, inside) if p)

    def listed(self, path: str, layer: int) -> bool:
        """Whether a file is one that a distribution, a package or the base commit brought with it."""
        if path in self._records or path in self._md5sums or _STDLIB.search(path):
            return True
        below = self._view.below(path)
        blob = self._layer_blobs[layer].get(path, "")
        return below is not None and bool(blob) and is_blob(blob, self._index.get(below, ""))

    def _vouched(self, hit: Hit) -> bool:
        if hit.inside:
            return False
        if self._records.get(hit.path) == hit.sha256 and hit.sha256:
            return True
        if self._md5sums.get(hit.path) == hit.md5 and hit.md5:
            return True
        return bool(_STDLIB.search(hit.path)) and self._view.below(hit.path) is None

    def _tracked_path(self, hit: Hit, layer: int) -> str | None:
        """The work tree path, when the place is a tracked file as HEAD has it, or its git object."""
        if hit.git_id:
            return self._blobs.get(hit.git_id)
        path = self._view.below(hit.path)
        if path is None or hit.inside or path.startswith(".git/"):
            return None
        if self._view.repository is None:
            return path if self._view.shown(hit.path, layer) else None
        blob = self._layer_blobs[layer].get(hit.path)
        return path if blob and is_blob(blob, self._index.get(path, "")) else None

    @cached_property
    def _layer_blobs(self) -> list[dict[str, str]]:
        """Per layer: path -> git ids of the content, for files of the work tree."""
        return [{e.path: e.blob for e in layer.entries if e.blob} for layer in self._view.layers]

    @cached_property
    def _index(self) -> dict[str, str]:
        repository = self._view.repository
        return dict(repository.index) if repository else {}

    @cached_property
    def _blobs(self) -> dict[str, str]:
        return {blob: path for path, blob in self._index.items()}

    @cached_property
    def _records(self) -> dict[str, str]:
        """Absolute path -> sha256 in hex, as installed distributions' RECORD files say."""
        found: dict[str, str] = {}
        for number, path, text in self._view.kept():
            if not path.endswith(".dist-info/RECORD") or not self._view.shown(path, number):
                continue
            site = path.rsplit("/", 2)[0]
            for line in text.splitlines():
                name, _, rest = line.rpartition(",")[0].rpartition(",")
                kind, _, value = rest.partition("=")
                if kind == "sha256" and name and ".." not in name:
                    raw = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
                    found[f"{site}/{name}"] = raw.hex()
        return found

    @cached_property
    def _md5sums(self) -> dict[str, str]:
        """Absolute path -> md5 in hex, as the system's package lists say.

        They name what lies in /usr/lib by the link /lib where the two are merged.
        """
        found: dict[str, str] = {}
        for number, path, text in self._view.kept():
            if path.endswith(".md5sums") and self._view.shown(path, number):
                for line in text.splitlines():
                    digest, _, name = line.partition("  ")
                    file = "/" + name.strip()
                    found[file] = digest
                    if file.startswith(_MERGED):
                        found.setdefault("/usr" + file, digest)
        return found


def standing(file: PatchedFile, text: bytes) -> str:
    """Whether a text is a patched file's `old` or `new` side, or `neither`, by all of its hunks."""
    whole = squeezed(text)
    sides = {"old": "+", "new": "-"}
    held = {
        side: all(
            squeezed(b"\n".join(line for sign, line in hunk if sign != left_out)) in whole
            for hunk in file.hunks
        )
        for side, left_out in sides.items()
    }
    if held["old"] == held["new"]:
        return "neither"
    return "old" if held["old"] else "new"


def _tail(path: str) -> str | None:
    """The last two components of a Python file's path, which tell a copy; None for other files."""
    if not path.endswith((".py", ".pyi", ".pyx", ".pyc")):
        return None
    steps = path.strip("/").split("/")
    return "/".join(steps[-2:]) if len(steps) > 1 else steps[-1]
