"""Root file systems from Debian's packages, through mmdebstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from race.errors import Accident, DiskFull, Missing, Unreachable

AGENT = (
    'chroot "$1" useradd --create-home --uid 1000 --shell /bin/bash agent',
    'rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig "$1"/var/lib/apt/lists/* "$1"/etc/resolv.conf',
    'rm -rf "$1"/etc/hostname "$1"/etc/*- "$1"/root/.cache',
)
"""After the packages: the unprivileged user, and nothing that names this host."""
EPOCH = "1704067200"
"""Times of files that a package did not date; the same packages give the same archive."""


class DebianRootfs:
    """Meets ports.RootFileSystems on a host that has mmdebstrap and reaches its Debian mirror."""

    def make(
        self, suite: str, packages: Sequence[str], excluded: Sequence[str], to: Path, timeout: float
    ) -> None:
        """Write a root file system of these packages as a tar file.

        Raises Missing without mmdebstrap, Unreachable when the mirror does not answer, DiskFull.
        """
        tool = shutil.which("mmdebstrap")
        if tool is None:
            raise Missing("mmdebstrap is not installed; `race doctor --fix` installs it")
        command = [tool, "--variant=minbase", f"--include={','.join(packages)}"]
        command += [f"--dpkgopt=path-exclude={path}" for path in excluded]
        command += [f"--customize-hook={hook}" for hook in AGENT]
        command += [suite, str(to)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Unreachable(f"Debian {suite}: no root file system within {timeout:.0f} s") from error
        if done.returncode == 0:
            return
        said = done.stderr.strip().splitlines()
        last = next((line for line in reversed(said) if line.startswith("E:")), said[-1] if said else "")
        if "No space left" in done.stderr:
            raise DiskFull(f"{to}: no room for a root file system of Debian {suite}")
        if "Unable to locate package" in done.stderr:
            raise Missing(f"Debian {suite} lacks a package: {last}")
        if "apt-get update" in last or "Failed to fetch" in done.stderr:
            raise Unreachable(f"the Debian mirror does not answer for {suite}: {last}")
        raise Accident(f"mmdebstrap failed for {suite}: {last}")
