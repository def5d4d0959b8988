"""Which licence a tree is under: SPDX ids from the texts themselves, metadata as a cross-check.

The texts are recognised by a library. A file may hold several licences (a bundled part's after the
project's own); several files are a choice only when the metadata says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from licenseclassifier import identify_license

from race.core.records import Finding

_FILE = re.compile(
    r"^(un)?(licen[cs]e|copying|copyright)([-_.].*)?$|^(mit|bsd|apache)[-_]licen[cs]e.*$", re.I
)
_METADATA = ("pyproject.toml", "setup.cfg", "setup.py")
_CLASSIFIER = re.compile(r"License :: OSI Approved :: ([^\"'\n]+)")
_SETUP_LICENCE = re.compile(r"^\s*license\s*=\s*[\"']([^\"'\n]{2,60})[\"']", re.MULTILINE)
_CFG_LICENCE = re.compile(r"^license\s*=\s*([^\n]{2,60})$", re.MULTILINE | re.IGNORECASE)
_LIMIT = 200_000
_ALIASES = {"Python-2.0.1": "PSF-2.0", "Python-2.0": "PSF-2.0"}


@dataclass(frozen=True)
class Licence:
    """What a tree says about its licence.

    `expression` is an SPDX expression or None; `ids` are its parts; `files` is where each was read;
    `declared` is what the metadata says, as written.
    """

    expression: str | None
    ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    choice: bool = False
    declared: str | None = None


def licence_files(names: Collection[str]) -> list[str]:
    """Files at the top of a tree that hold licence texts, sorted."""
    return sorted(name for name in names if _FILE.match(name) and not name.endswith((".py", ".rb")))


def metadata_files(names: Collection[str]) -> list[str]:
    """Files at the top of a tree whose metadata names a licence, best first."""
    return [name for name in _METADATA if name in names]


def read_licence(texts: Mapping[str, bytes], metadata: Mapping[str, bytes]) -> Licence:
    """The licence of a tree from its licence files and metadata files (name -> bytes)."""
    found: dict[str, list[str]] = {}
    for name, data in sorted(texts.items()):
        found[name] = identify(data)
    declared = _declared(metadata)
    ids = tuple(dict.fromkeys(part for parts in found.values() for part in parts))
    files = tuple(name for name, parts in found.items() if parts)
    if not ids:
        return Licence(None, declared=declared)
    separate = len(files) > 1 and all(len(found[name]) == 1 for name in files)
    choice = len(ids) > 1 and separate and bool(declared and re.search(r"\bor\b|dual", declared, re.I))
    return Licence((" OR " if choice else " AND ").join(ids), ids, files, choice, declared)


def identify(data: bytes) -> list[str]:
    """SPDX ids of the licences in one text, in the order they appear."""
    return list(_identify(data[:_LIMIT]))


@lru_cache(maxsize=64)
def _identify(data: bytes) -> tuple[str, ...]:
    """A history has few licence texts and many commits."""
    text = data.decode(errors="replace")
    return tuple(dict.fromkeys(match.id for match in identify_license(text)))


def licence_findings(licence: Licence, allowed: Sequence[str]) -> list[Finding]:
    """Why a licence does not do, and where texts and metadata disagree; empty when all is well."""
    if licence.expression is None:
        said = f"; its metadata says {licence.declared!r}" if licence.declared else ""
        return [Finding(rule="no-licence", message=f"no licence text that is known{said}")]
    accepted = [part for part in licence.ids if _allowed(part, allowed)]
    place = ", ".join(licence.files)
    if not accepted or (not licence.choice and len(accepted) < len(licence.ids)):
        return [
            Finding(
                rule="licence", message=f"{licence.expression} is not on the allow-list", place=place
            )
        ]
    if licence.declared and not _agrees(licence):
        return [
            Finding(
                rule="licence-metadata",
                message=f"the text is {licence.expression}, the metadata says {licence.declared!r}",
                place=place,
                severity="warning",
            )
        ]
    return []


def _allowed(part: str, allowed: Sequence[str]) -> bool:
    return part in allowed or _ALIASES.get(part, part) in allowed


def _words(text: str) -> set[str]:
    words = set(re.findall(r"[a-z]+", text.lower()))
    for short, word in (("psf", "python"), ("expat", "mit"), ("asl", "apache"), ("modified", "bsd")):
        if short in words:
            words.add(word)
    return words & {"mit", "bsd", "apache", "isc", "python", "zlib", "unlicense", "gpl", "lgpl",
                    "agpl", "mpl", "mozilla", "gnu", "proprietary", "commercial"}  # fmt: skip


def _agrees(licence: Licence) -> bool:
    """Do text and metadata speak of the same family? Free wording makes more than that unsafe."""
    said, read = _words(licence.declared or ""), _words(" ".join(licence.ids))
    return not said or not read or bool(said & read)


def _declared(metadata: Mapping[str, bytes]) -> str | None:
    for name in _METADATA:
        text = metadata.get(name, b"").decode(errors="replace")
        said = _from_pyproject(text) if name == "pyproject.toml" else _from_setup(name, text)
        if said:
            return said[:200]
    return None


def _from_pyproject(text: str) -> str | None:
    if "license" not in text.lower():
        return None
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    project: dict[str, Any] = whole.get("project") or {}
    poetry: dict[str, Any] = (whole.get("tool") or {}).get("poetry") or {}
    for table in (project, poetry):
        said = table.get("license")
        if isinstance(said, str):
            return said
        if isinstance(said, dict) and isinstance(said.get("text"), str):
            return str(said["text"]).strip().splitlines()[0]
        for classifier in table.get("classifiers") or ():
            match = _CLASSIFIER.search(str(classifier))
            if match:
                return match[1].strip()
    return None


def _from_setup(name: str, text: str) -> str | None:
    pattern = _CFG_LICENCE if name == "setup.cfg" else _SETUP_LICENCE
    match = pattern.search(text) or _CLASSIFIER.search(text)
    return match[1].strip() if match else None
