"""What this machine is asked for: root file systems, programs, packages pinned to a date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol


class RootFileSystems(Protocol):
    """Makes root file systems from a distribution's packages."""

    def make(
        self, suite: str, packages: Sequence[str], excluded: Sequence[str], to: Path, timeout: float
    ) -> None:
        """Write a root file system as a tar file. Raises Missing, Unreachable or DiskFull."""


class Host(Protocol):
    """This machine, as far as race may set it up."""

    def refusal(self) -> str:
        """Why this host may not be changed by us; empty when it may."""

    def has(self, program: str) -> bool:
        """Whether a program is on the path."""

    def install(self, packages: Sequence[str]) -> None:
        """Install packages of its distribution. Raises Missing when it cannot."""

    def start_engine(self, answers: Callable[[], bool]) -> str:
        """Start the container engine; in words how. Raises Accident when it does not come up."""


class Resolver(Protocol):
    """Pins requirements to what existed on a date."""

    def compile(
        self,
        requirements: Sequence[str],
        *,
        python: str,
        cutoff: datetime | None,
        constraints: Sequence[str] = (),
        omit: Sequence[str] = (),
        built: Mapping[str, Path] | None = None,
        later: Mapping[str, datetime] | None = None,
    ) -> str:
        """A lock: sorted lines `name==version --hash=sha256:...`, one file for each package.

        `omit` names packages that are resolved but not locked (the project itself). `built` are
        wheels made from source archives, by the archive's SHA-256, which is then what is locked.
        `later` gives single packages another cut-off.
        Raises Unresolvable (about the project) or Unreachable (about the index).
        """

    def fetch(self, lock: str, *, python: str) -> dict[str, Path]:
        """The files of a lock: file name -> a path on this machine, each checked by its hash.

        Wheels, and source archives where a lock names one. Raises Unreachable, or Accident when the
        index sends other bytes than the lock names.
        """

    def source(self, name: str, *, version: str, cutoff: datetime | None) -> tuple[str, Path]:
        """SHA-256 and path of a release's source archive, the newest when no version is given.

        Raises Unresolvable when there is none before the cut-off.
        """

    def reach(self) -> str:
        """The resolver's name and version. Raises Unreachable when its index does not answer."""
