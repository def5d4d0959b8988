"""What was submitted, and what of it is graded. Standard library only.

A submission is a patch file when there is one, else the difference between the repository and the
recorded base. Where both are there, they have to agree: a patch that was applied with fuzz, in part
or somewhere else is refused.
"""

from __future__ import annotations

import os

import tree

from race.core import patches, unified_diff

PATCH = "/tmp/soma-agent.patch"


class Refused(Exception):
    """The submission may not be graded; the verdict and its reasons."""

    def __init__(self, verdict: str, *reasons: str) -> None:
        super().__init__(verdict)
        self.verdict, self.reasons = verdict, list(reasons)


class Submission:
    """The product files that a submission changes, and the paths that were set aside."""

    def __init__(self) -> None:
        self.product: dict[str, bytes | None] = {}
        self.set_aside: list[str] = []

    def read(self, base: tree.Base, root: str, around: patches.Surroundings, uid: int) -> None:
        """Find both out. `uid` is the user below whom git applies the patch. Raises Refused."""
        try:
            done = tree.difference(base, root)
        except tree.Mismatch as error:
            raise Refused("refused", str(error)) from None
        if os.path.isfile(PATCH) and not os.path.islink(PATCH):
            with open(PATCH, "rb") as stream:
                patch = unified_diff.without_carriage_returns(stream.read())
            if patch.strip():
                self._from_patch(patch, base, root, around, uid)
                self._agrees(done, around)
                return
        if done:
            self._from_tree(done, base, around)

    def _from_patch(
        self, patch: bytes, base: tree.Base, root: str, around: patches.Surroundings, uid: int
    ) -> None:
        judgement = patches.judge(patch, around)
        self.set_aside = list(judgement.set_aside)
        if judgement.verdict:
            raise Refused(judgement.verdict, *judgement.reasons)
        touched = [path for change in unified_diff.read_patch(judgement.graded) for path in change.paths]
        try:
            made = tree.apply_exactly(base, root, judgement.graded, touched, uid)
        except tree.Mismatch as error:
            raise Refused("refused", "the patch does not apply exactly: %s" % error) from None
        made.update(dict.fromkeys(judgement.gone))
        known = {*judgement.product, *judgement.set_aside}
        extra = sorted(path for path in made if path not in known)
        if extra:
            raise Refused("refused", "%s: changed by the patch, but not named by it" % extra[0])
        self.product = {path: data for path, data in made.items() if path in judgement.product}

    def _agrees(self, done: dict[str, bytes | None], around: patches.Surroundings) -> None:
        """If the patch was applied to the repository already, did it do there what it does here?"""
        layout, known = patches.Layout(around.tree), frozenset(around.tree)
        applied = {path: data for path, data in done.items()
                   if patches.is_product(path, layout, around.hidden, known)}  # fmt: skip
        if not applied or applied == self.product:
            return
        for path in sorted({*applied, *self.product}):
            if applied.get(path, b"?") != self.product.get(path, b"?"):
                raise Refused("refused", "%s: the tree is not the base with the patch on it" % path)

    def _from_tree(
        self, done: dict[str, bytes | None], base: tree.Base, around: patches.Surroundings
    ) -> None:
        changes = []
        for path, data in done.items():
            old, new = (path if path in base.files else ""), (path if data is not None else "")
            binary = data is not None and b"\0" in data[:8000]
            changes.append(unified_diff.Change(old, new, (), binary, b""))
        judgement = patches.judge_changes(changes, around)
        self.set_aside = list(judgement.set_aside)
        if judgement.verdict == "refused":
            raise Refused("refused", *judgement.reasons)
        self.product = {path: done[path] for path in judgement.product}
