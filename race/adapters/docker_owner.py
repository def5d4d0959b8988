"""Which process made a container: containers of dead ones are swept."""

from __future__ import annotations

import os
from pathlib import Path


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty when there is none, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return ""


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def owner() -> str:
    """Who made a container: this boot, this process, when it started."""
    return f"{_boot()}/{os.getpid()}/{_started(os.getpid())}"


def is_alive(label: str) -> bool:
    """Does the process still run that this label names?"""
    boot, _, rest = label.partition("/")
    pid, _, started = rest.partition("/")
    return boot == _boot() and pid.isdigit() and bool(started) and _started(int(pid)) == started
