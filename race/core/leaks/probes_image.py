"""The probe over what an image says of itself: history, labels, environment, command, names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from race.core.leaks.forms import printable, squeezed, worded
from race.core.leaks.probing import Answer, Probe, Subject
from race.core.leaks.unpack import parts
from race.core.sealed import CONFIG, LeakFinding

_DEPTH = 4
_MOST_PARTS = 500
_TELLS_NOTHING = frozenset(
    [
        *("architecture", "config", "container", "created", "docker_version", "history", "id", "os"),
        *("parent", "rootfs", "tags", "variant"),
    ]
)


def _metadata(subject: Subject) -> Answer:
    """History, labels, environment and names of the image."""
    config = subject.view.config
    texts = [
        (key, value if isinstance(value, str) else json.dumps(value))
        for key, value in sorted(config.items())
        if key not in _TELLS_NOTHING and value
    ]
    for number, step in enumerate(config.get("history") or []):
        for key in ("created_by", "comment", "author"):
            if step.get(key):
                texts.append((f"history[{number}].{key}", str(step[key])))
    inner = config.get("config") or {}
    for key, value in (inner.get("Labels") or {}).items():
        texts.append((f"label {key}", f"{key}={value}"))
    for value in inner.get("Env") or []:
        texts.append((f"env {str(value).split('=', 1)[0]}", str(value)))
    for key in sorted(set(inner) - {"Labels", "Env"}):
        if inner[key]:
            texts.append((key.lower(), json.dumps(inner[key])))
    for value in config.get("tags") or []:
        texts.append(("tag", str(value)))
    return [
        LeakFinding(path=place, layer=CONFIG, what=what, excerpt=printable(excerpt.encode()))
        for place, text in texts
        for what, excerpt in _told(subject, place, text)
    ]


_LINK = re.compile(
    r"https?://[^\s\"']*/(?:pull|pulls|commit|commits|issues|compare|merge_requests)/[^\s\"',]+", re.I
)
_CHECKED_OUT = re.compile(
    r"(?:\bgit\b[^;&|]{0,200}?|/(?:archive|tarball|zipball|zip|tar\.gz|raw)/|\.git@)\b([0-9a-f]{40})\b"
)
_REVISION = re.compile(
    r"(?i)(commit|revision|vcs.?ref|git.?(?:sha|ref|hash)|head.?sha|fix.?sha)\W{1,4}([0-9a-f]{7,40})\b"
)


def _told(subject: Subject, place: str, text: str) -> Iterator[tuple[str, str]]:
    from_label = place.startswith("label race.")
    for link in _LINK.findall(text):
        yield "a link to a change or an issue", link
    found = None if from_label else _REVISION.search(text) or _CHECKED_OUT.search(text)
    if found:
        yield "a commit id", printable(found.group().encode())
    for number in subject.numbers:
        named = (
            None
            if from_label
            else re.search(rf"(?i)(?:#|pull.?request |issue |pr[ -]?){number}\b", text)
        )
        if named:
            yield "the number of the pull request or an issue", named.group()
    for commit in subject.commits:
        if len(commit) >= 7 and commit[:12] in text:
            yield "the id of the base or the fixing commit", commit[:12]
    yield from _told_pieces(subject, text)


def _inside(raw: bytes, depth: int) -> Iterator[bytes]:
    """What lies in a text, level by level."""
    for part in parts(raw):
        yield part.data
        if depth:
            yield from _inside(part.data, depth - 1)


def _told_pieces(subject: Subject, text: str) -> Iterator[tuple[str, str]]:
    raw = text.encode("utf-8", "surrogateescape")
    raw = b"\x01".join([raw, *_inside(raw, _DEPTH)][:_MOST_PARTS])
    forms = (squeezed(raw), worded(raw))
    for fragment in subject.wanted.fragments:
        if fragment.form != "shape" and fragment.needle in forms[fragment.wordy]:
            if subject.hidden_tests_belong and fragment.source == "tests":
                continue
            if fragment.form == "commit":
                continue
            kind = (
                "a hidden test name" if fragment.form == "name" else f"a piece of the {fragment.source}"
            )
            yield kind, fragment.text.decode("utf-8", "replace")
            return


PROBES = (Probe("image-metadata", "image", "nothing in history, labels, environment, tags", _metadata),)
