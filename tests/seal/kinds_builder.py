"""Sabotaged images: what a builder leaves of its own network, and where its hand can be seen."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from pathlib import Path

from sabotage import SITE, Kit, Sabotage, Sabotages, drop, fresh, registering

SABOTAGES: Sabotages = {}
sabotage = registering(SABOTAGES)

MOMENT = 1767225600
CERTIFICATE = (
    "-----BEGIN CERTIFICATE-----\n"
    + base64.encodebytes(hashlib.sha512(b"an authority").digest() * 9).decode()
    + "-----END CERTIFICATE-----\n"
)
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
PACKAGED = "".join(f"{n:032x}  usr/share/ca-certificates/mozilla/A{n}.crt\n" for n in range(3))
CERTIFI = f"{SITE}/certifi/cacert.pem"


def both(*some: Sabotage) -> Sabotage:
    """Several things dropped."""

    def spoil(root: Path, kit: Kit) -> None:
        for one in some:
            one(root, kit)

    return spoil


def bundle(certificates: int) -> Sabotage:
    """A system's bundle of so many, of which a package brought three."""
    return both(
        drop("var/lib/dpkg/info/ca-certificates.md5sums", PACKAGED),
        drop(BUNDLE, CERTIFICATE * certificates),
    )


def certifi(recorded: int) -> Sabotage:
    """An installed distribution's bundle, with the size that it recorded."""
    line = f"certifi/cacert.pem,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,{recorded}\n"
    return both(drop(CERTIFI, CERTIFICATE * 2), drop(f"{SITE}/certifi-1.dist-info/RECORD", line))


SABOTAGES["authority of the builder's company"] = (
    "certificate-authorities", "/usr/local/share/ca-certificates/proxy.crt",
    drop("usr/local/share/ca-certificates/proxy.crt", CERTIFICATE),
)  # fmt: skip
SABOTAGES["bundle with one authority more"] = ("certificate-authorities", f"/{BUNDLE}", bundle(4))
SABOTAGES["bundle of a builder, without its package"] = (
    "certificate-authorities", f"/{BUNDLE}",
    both(drop("var/lib/dpkg/info/sed.md5sums", f"{0:032x}  bin/sed\n"), drop(BUNDLE, CERTIFICATE)),
)  # fmt: skip
SABOTAGES["installed bundle with one authority more"] = (
    "certificate-authorities", f"/{CERTIFI}", certifi(len(CERTIFICATE)),
)  # fmt: skip
SABOTAGES["resolver of a private network"] = (
    "host-names", "/etc/resolv.conf", drop("etc/resolv.conf", "nameserver 10.4.0.2\n"),
)  # fmt: skip
SABOTAGES["domain to search"] = (
    "host-names", "/etc/resolv.conf",
    drop("etc/resolv.conf", "# written by a builder\nsearch builders.example.invalid\n"),
)  # fmt: skip


def wide(root: Path, kit: Kit) -> None:
    """A tree of many folders, in one commit, all of one time."""
    kit.write(root / "repo", {f"src/tallybook/part{n}/part.py": f"PART = {n}\n" for n in range(60)})
    shutil.rmtree(root / "repo/.git")
    fresh(root / "repo", kit)
    for path in [root / "repo", *(root / "repo").rglob("*")]:
        os.utime(path, (MOMENT, MOMENT), follow_symlinks=False)


@sabotage("folder in which a file was replaced", "file-times", "/repo/src/tallybook")
def _(root: Path, kit: Kit) -> None:
    wide(root, kit)
    os.utime(root / "repo/src/tallybook", (MOMENT + 500, MOMENT + 500))
