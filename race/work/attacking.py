"""Runs the battery of attacks and honest patches against one task."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from race.battery.entries import Entry
from race.battery.rendering import DoesNotFit, Target, patch_of, target
from race.core.grading import Graded


@dataclass(frozen=True)
class Attacked:
    """One entry's outcome by one route.

    `graded` is None when the task has nothing that the entry needs (`why`).
    """

    entry: Entry
    route: str
    graded: Graded | None
    why: str = ""

    @property
    def held(self) -> bool:
        """Did the grader do what it has to: no attack resolved, every honest patch on its merits?"""
        if self.graded is None:
            return True
        if self.entry.honest:
            return self.as_expected
        return not self.graded.resolved and bool(self.graded.reasons)

    @property
    def as_expected(self) -> bool:
        """Is it the verdict that the entry names? On a task where an attack does not even get to what
        it is after, it is another one, and nothing is wrong with that."""
        return self.graded is None or self.graded.verdict in self.entry.verdicts(self.route)


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
    routes: Mapping[str, Callable[[bytes], Graded]],
    *,
    jobs: int = 1,
) -> Iterator[Attacked]:
    """Grade every entry by every route, `jobs` at once; outcomes in the entries' order."""

    def one(asked: tuple[Entry, str]) -> Attacked:
        entry, route = asked
        try:
            patch = patch_of(entry, place, tree.files.get, fix)
        except DoesNotFit as error:
            return Attacked(entry, route, None, str(error))
        return Attacked(entry, route, routes[route](patch))

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(one, [(entry, route) for entry in entries for route in routes])
