"""Reads what a container reported of its network, mounts and git, for the live probes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MARK = b"RACE-LIVE "
SECTIONS = ("dev", "route", "route6", "address6", "mountinfo", "environment")
"""What a container without Python reports through its shell, in this order."""

_ALWAYS_FILES = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/sbin/docker-init", "/dev/console"}
_VIRTUAL = {
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "tmpfs", "overlay", "ramfs",
}  # fmt: skip
_PROXY = re.compile(r"(?i)^((https?|ftp|all|socks)_proxy|(pip|uv)_(index_url|proxy))=")


def shell_script() -> str:
    """The report of a container that has a shell but no Python; reachability is not tried."""
    files = ["/proc/net/dev", "/proc/net/route", "/proc/net/ipv6_route", "/proc/net/if_inet6"]
    steps = [f"cat {path} 2>/dev/null; echo RACE-NEXT" for path in (*files, "/proc/self/mountinfo")]
    return "; ".join([*steps, "env"])


def from_shell(output: bytes) -> dict[str, Any]:
    """The shell's report as facts."""
    texts = output.decode("utf-8", "replace").split("RACE-NEXT")
    raw = dict(zip(SECTIONS, texts, strict=False))
    return understood({key: raw.get(key, "") for key in SECTIONS}) | {
        "why": "the image has no Python to try connections with"
    }


def from_python(output: bytes) -> dict[str, Any] | None:
    """The script's report as facts; None when it printed none."""
    at = output.rfind(MARK)
    if at < 0:
        return None
    try:
        report = json.loads(output[at + len(MARK) :].split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict):
        return None
    facts = understood(report)
    for key in ("tcp", "udp", "dns", "metadata", "gateway"):
        facts[key] = list(report.get(key, []))
    facts["ipv6"] = [*facts["ipv6"], *report.get("ipv6", [])]
    if "git" in report:
        facts["git"] = list(report["git"])
    else:
        facts["why"] = f"git did not run in the container: {report.get('no_git', '')}"
    return facts


def understood(report: Mapping[str, str]) -> dict[str, Any]:
    """Interfaces, routes, IPv6 addresses, mounts and proxies out of the kernel's own tables."""
    return {
        "interfaces": [
            {"target": line.split(":", 1)[0].strip(), "answer": "an interface"}
            for line in report["dev"].splitlines()
            if ":" in line and line.split(":", 1)[0].strip() not in _QUIET
        ],
        "routes": [
            {"target": line.split()[0], "answer": line.strip()}
            for line in report["route"].splitlines()[1:]
            if line.split() and line.split()[0] != "lo"
        ],
        "ipv6": [
            {"target": line.split()[-1], "answer": line.split()[0]}
            for line in report["address6"].splitlines()
            if line.split() and line.split()[-1] not in _QUIET
        ],
        "mounts": _mounts(report["mountinfo"]),
        "proxy": [
            {"target": line.split("=", 1)[0], "answer": "is set"}
            for line in report["environment"].splitlines()
            if _PROXY.match(line)
        ],
    }


_QUIET = {
    "lo",
    "tunl0",
    "sit0",
    "ip6tnl0",
    "gre0",
    "gretap0",
    "erspan0",
    "ip_vti0",
    "ip6_vti0",
    "ip6gre0",
}
"""Loopback, and the tunnel devices that a kernel shows, unused, in every network namespace."""


def _mounts(text: str) -> list[dict[str, str]]:
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or not kinds:
            continue
        root, place, kind = fields[3], fields[4], kinds[0]
        if place == "/" or place in _ALWAYS_FILES:
            continue
        if kind in _VIRTUAL and not place.endswith(".sock"):
            continue
        found.append({"target": place, "answer": f"{kind} {root}"})
    return found
