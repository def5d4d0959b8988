"""What `race doctor --fix` may do to this host: install Debian packages, start the container engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from race.errors import Accident, Missing

PID_FILE = Path("/var/run/docker.pid")
LOG = Path("/var/log/race-dockerd.log")
START_SECONDS = 60.0


class DebianHost:
    """Meets ports.Host. Everything needs root, and installing needs Debian or Ubuntu."""

    def refusal(self) -> str:
        """Why this host may not be changed by us; empty when it may."""
        if os.geteuid() != 0:
            return "not root"
        try:
            text = Path("/etc/os-release").read_text()
        except OSError:
            return "not Debian or Ubuntu"
        known = any(word in text.lower() for word in ("id=debian", "id=ubuntu", "id_like=debian"))
        return "" if known and shutil.which("apt-get") else "not Debian or Ubuntu"

    def has(self, program: str) -> bool:
        """Whether a program is on the path."""
        return shutil.which(program) is not None

    def install(self, packages: Sequence[str]) -> None:
        """Install Debian packages. Raises Missing with apt's last line when it cannot."""
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        for attempt in (["apt-get", "update"], command):
            done = subprocess.run(
                attempt, env=environment, capture_output=True, text=True, timeout=900, check=False
            )
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Missing(
                f"cannot install {' '.join(packages)}: {said[-1] if said else 'apt-get failed'}"
            )

    def start_engine(self, answers: Callable[[], bool]) -> str:
        """Start dockerd; in words how. Raises Accident when it does not come up."""
        if answers():
            return "it was running already"
        removed = self.remove_stale_pid()
        systemd = Path("/run/systemd/system").is_dir()
        how = "with systemctl" if systemd else f"its log is {LOG}"
        daemon: subprocess.Popen[bytes] | None = None
        deadline = time.monotonic() + START_SECONDS
        if systemd:
            subprocess.run(
                ["systemctl", "start", "docker"], capture_output=True, timeout=120, check=False
            )
        while time.monotonic() < deadline:
            if not systemd and (daemon is None or daemon.poll() is not None):
                removed = self.remove_stale_pid() or removed
                daemon = self._dockerd()
            time.sleep(0.5)
            if answers():
                return how + ("; removed a stale docker.pid" if removed else "")
        raise Accident(f"dockerd does not answer after {START_SECONDS:.0f} s; see {LOG}")

    @staticmethod
    def _dockerd() -> subprocess.Popen[bytes]:
        """Start the daemon. One that finds a dying predecessor's pid file ends, and is tried again."""
        with LOG.open("ab") as log:
            return subprocess.Popen(
                ["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def remove_stale_pid(self, path: Path = PID_FILE) -> bool:
        """Remove a pid file that no living dockerd has; whether there was one."""
        try:
            pid = int(path.read_text().strip())
        except (OSError, ValueError):
            return False
        try:
            living = Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd"
        except OSError:
            living = False
        if not living:
            path.unlink(missing_ok=True)
        return not living
