"""Runs the battery of attacks and honest patches against one task."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from race.battery.entries import Entry
from race.battery.rendering import DoesNotFit, Target, patch_of, target
from race.core.grading import Graded


@dataclass(frozen=True)
class Attacked:
    """One entry's outcome. `graded` is None when the task has nothing that the entry needs (`why`)."""

    entry: Entry
    graded: Graded | None
    why: str = ""

    @property
    def held(self) -> bool:
        """Did the grader do what it has to: no attack resolved, every honest patch on its merits?"""
        if self.graded is None:
            return True
        if self.entry.honest:
            return self.graded.verdict == self.entry.expect
        return not self.graded.resolved and bool(self.graded.reasons)


class BaseTree:
    """A task's tree at the base, from its archive."""

    def __init__(self, tar: bytes) -> None:
        self.files: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is not None:
                    self.files[member.name.removeprefix("./")] = stream.read()

    def target(
        self, fix: bytes, test: bytes, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]
    ) -> Target:
        """The places that entries name. Raises DoesNotFit."""
        return target(self.files, fix, test, fail_to_pass, [*fail_to_pass, *pass_to_pass])


def run_battery(
    entries: Sequence[Entry],
    place: Target,
    tree: BaseTree,
    fix: bytes,
    grade: Callable[[bytes], Graded],
    *,
    jobs: int = 1,
) -> Iterator[Attacked]:
    """Grade every entry, `jobs` at once; outcomes in the entries' order."""

    def one(entry: Entry) -> Attacked:
        try:
            patch = patch_of(entry, place, tree.files.get, fix)
        except DoesNotFit as error:
            return Attacked(entry, None, str(error))
        return Attacked(entry, grade(patch))

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(one, entries)
