"""Probes over the network and the mounts: what the image asks for, and what a container can reach.

A container of the image, started as an agent's is, reports facts (work/live_probes.py gathers them);
what they mean is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from race.core.leaks.forms import printable
from race.core.leaks.probes_authority import resolvers
from race.core.leaks.probing import Answer, NotChecked, Probe, Subject
from race.core.sealed import CONFIG, LeakFinding

_PROXY = re.compile(
    r"(?i)^((https?|ftp|all|socks|no)_proxy|(pip|uv)_(extra_)?(index|index_url|proxy|default_index)"
    r"|npm_config_(registry|proxy|https_proxy)|goproxy)=(.+)"
)
_PROXY_LINE = re.compile(
    r"(?im)^\s*(?:export\s+)?((?:https?_proxy|all_proxy|ftp_proxy|proxy|index-url|extra-index-url|index_url"
    r"|extra_index_url|(?:pip|uv)_\w*index\w*|registry|https-proxy|default-index)"
    r"\s*[=:]\s*\S+|Acquire::\S*proxy\S*\s+\S+)|\"https?Proxy\"\s*:\s*\"[^\"]+\""
)  # fmt: skip

_SETTINGS = re.compile(
    r"(^|/)(pip\.conf|\.gitconfig|gitconfig|\.pydistutils\.cfg|\.condarc|\.curlrc|\.wgetrc|config)$"
    r"|^/etc/(environment|profile$|profile\.d/|bash\.bashrc|apt/apt\.conf)|/uv\.toml$|/\.docker/config\.json$"
    r"|/\.(bashrc|bash_profile|profile|zshrc|zshenv|npmrc|pypirc)$"
)


def _proxies(subject: Subject) -> Answer:
    found = []
    inner = subject.view.config.get("config") or {}
    for value in inner.get("Env") or []:
        if _PROXY.match(str(value)):
            what = "a proxy or package index in the environment"
            name = "env " + str(value).split("=", 1)[0]
            found.append(LeakFinding(path=name, layer=CONFIG, what=what, excerpt=_safe(str(value))))
    for number, path, text in subject.view.kept():
        if subject.view.below(path) is not None or not _SETTINGS.search(path):
            continue
        for match in _PROXY_LINE.finditer(text):
            what = "a proxy or package index in a settings file"
            said = match.group().strip()
            found.append(LeakFinding(path=path, layer=number, what=what, excerpt=_safe(said)))
    return found


def _safe(text: str) -> str:
    """Without user and password of a URL."""
    return printable(re.sub(r"//[^/@\s]+@", "//…@", text).encode())


def _names(subject: Subject) -> Answer:
    """Hosts that the image itself maps, and resolvers of a private network that it names."""
    found = []
    for number, path, text in subject.view.kept():
        if path != "/etc/hosts":
            continue
        for line in text.splitlines():
            fields = line.split("#")[0].split()
            if len(fields) > 1 and not re.match(r"(127\.|::1$|fe00:|ff0\d:|0\.0\.0\.0)", fields[0]):
                what = "a host mapped to an address"
                found.append(
                    LeakFinding(path=path, layer=number, what=what, excerpt=printable(line.encode()))
                )
    return [*found, *resolvers(subject)]


def _volumes(subject: Subject) -> Answer:
    inner = subject.view.config.get("config") or {}
    found = [
        LeakFinding(path=str(path), layer=CONFIG, what="a volume is declared", excerpt=str(path))
        for path in (inner.get("Volumes") or {})
    ]
    found += [
        LeakFinding(path=str(port), layer=CONFIG, what="a port is exposed", excerpt=str(port))
        for port in (inner.get("ExposedPorts") or {})
    ]
    return found


def _live(kind: str, what: str) -> Probe:
    """A probe that reads one list of the container's report."""

    def check(subject: Subject) -> Answer:
        if subject.live is None:
            return NotChecked(subject.live_why)
        if kind not in subject.live:
            return NotChecked(str(subject.live.get("why") or "the container did not report it"))
        return [_reached(item, what) for item in subject.live[kind]]

    return Probe(f"live-{kind}", "network", _LIVE[kind], check)


def _reached(item: Mapping[str, Any], what: str) -> LeakFinding:
    return LeakFinding(
        path=str(item.get("target", "")),
        layer=CONFIG,
        what=what,
        excerpt=printable(str(item.get("answer", "")).encode()),
    )


_LIVE = {
    "interfaces": "the container has no network interface but loopback",
    "routes": "no route leads out",
    "tcp": "no TCP connection to public addresses and package indexes",
    "udp": "no answer and no way out for UDP",
    "dns": "no name resolves",
    "ipv6": "no IPv6 address and no IPv6 way out",
    "metadata": "no metadata address answers",
    "gateway": "no gateway, host or neighbour answers",
    "proxy": "no proxy variable in a process of the container",
    "mounts": "nothing is mounted but what the engine always mounts",
    "git": "git itself sees one commit and nothing else",
}
_WHAT = {
    "interfaces": "a network interface",
    "routes": "a route",
    "tcp": "a TCP connection was made",
    "udp": "a UDP packet could leave or was answered",
    "dns": "a name was resolved",
    "ipv6": "IPv6 works",
    "metadata": "a metadata address answered",
    "gateway": "a neighbour answered",
    "proxy": "a proxy variable",
    "mounts": "a mount from outside",
    "git": "git shows more than one commit",
}

PROBES = (
    Probe("proxy-settings", "network", "no proxy or package index in environment or files", _proxies),
    Probe(
        "host-names",
        "network",
        "the image maps no host names and names no resolver of its builder",
        _names,
    ),
    Probe("volumes-and-ports", "image", "no declared volume, no exposed port", _volumes),
    *(_live(kind, _WHAT[kind]) for kind in _LIVE),
)
