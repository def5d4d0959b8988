"""The probe over certificate authorities and resolvers that a builder left in the image.

A bundle that a package brought may stay. What was added to it is told by counting: a package's list of
certificates, or the size that an installed distribution records of its bundle.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from race.core.leaks.probes_residue import recorded_files
from race.core.leaks.probing import Answer, Probe, Subject
from race.core.sealed import CONFIG, LeakFinding

_ADDED = re.compile(
    r"^/usr/local/share/ca-certificates/.+|^/etc/pki/ca-trust/source/anchors/.+"
    r"|^/usr/share/pki/trust/anchors/.+|^/etc/ca-certificates/trust-source/anchors/.+"
)
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_PACKAGED = re.compile(r"\busr/share/ca-certificates/\S+\.crt$", re.MULTILINE)
_BEGIN = "-----BEGIN CERTIFICATE-----"
_INSTALLED = re.compile(r"/(site|dist)-packages/(.*/)?certifi/cacert\.pem$")
_VARIABLE = re.compile(
    r"^(SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|PIP_CERT|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO"
    r"|UV_SYSTEM_CERTS_FILE|AWS_CA_BUNDLE)=(.+)"
)
_USUAL = re.compile(
    r"^/etc/(ssl|pki)/|/(site|dist)-packages/|/(ana|mini|micro|mini)?(conda|forge)\d?/|^/nix/"
)
_RESOLVER = re.compile(r"(?m)^\s*nameserver\s+(\S+)|^\s*(?:search|domain)\s+(\S.*)$")


def _authorities(subject: Subject) -> Answer:
    return [*_added(subject), *_grown(subject), *_variables(subject)]


def _found(path: str, layer: int, what: str, excerpt: str) -> LeakFinding:
    return LeakFinding(path=path, layer=layer, what=what, excerpt=excerpt)


def _added(subject: Subject) -> Iterator[LeakFinding]:
    """Authorities where a system looks for those that its owner adds."""
    for number, layer in enumerate(subject.view.layers):
        for entry in layer.entries:
            held = entry.kind == "l" or (entry.kind == "f" and entry.size > 0)
            if held and _ADDED.search(entry.path) and "/.wh." not in entry.path:
                yield _found(entry.path, number, "an added certificate authority", f"{entry.size} bytes")


def _grown(subject: Subject) -> Iterator[LeakFinding]:
    """Bundles that hold more than their package brought."""
    listed = {
        number: len(_PACKAGED.findall(text))
        for number, path, text in subject.view.kept()
        if re.search(r"/dpkg/info/ca-certificates(:\w+)?\.md5sums$", path)
    }
    by_dpkg = any(path.endswith(".md5sums") for _, path, _ in subject.view.kept())
    for number, path, text in subject.view.kept():
        if path == _BUNDLE and by_dpkg:
            held, known = text.count(_BEGIN), max(listed.values(), default=0)
            if held > known:
                what = "a bundle with more certificate authorities than its package brought"
                yield _found(path, number, what, f"{held} certificates, {known} of a package")
    recorded = recorded_files(subject)
    sizes = {path: size for path, size in recorded if _INSTALLED.search(path)}
    for number, layer in enumerate(subject.view.layers):
        for entry in layer.entries:
            size = sizes.get(entry.path)
            if size is not None and entry.kind == "f" and entry.size != size:
                what = "a bundle of another size than its distribution recorded"
                yield _found(entry.path, number, what, f"{entry.size} bytes, {size} recorded")


def _variables(subject: Subject) -> Iterator[LeakFinding]:
    """Environment variables that name a bundle of somebody's own."""
    inner = subject.view.config.get("config") or {}
    for value in inner.get("Env") or []:
        match = _VARIABLE.match(str(value))
        if match and not _USUAL.search(match.group(2)):
            what = "a bundle of certificate authorities in the environment"
            yield _found(f"env {match.group(1)}", CONFIG, what, match.group(2))


def resolvers(subject: Subject) -> Iterator[LeakFinding]:
    """Name servers of a private network, and domains to search, that a builder left behind."""
    for number, path, text in subject.view.kept():
        if path != "/etc/resolv.conf":
            continue
        for match in _RESOLVER.finditer(text.split("\0", 1)[0]):
            if match.group(2) or _private(match.group(1)):
                yield _found(path, number, "a resolver of the builder's network", match.group().strip())


def _private(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return False
    return parsed.is_private and not parsed.is_loopback


PROBES = (
    Probe(
        "certificate-authorities", "network", "no certificate authority beyond those of packages",
        _authorities,
    ),
)  # fmt: skip
