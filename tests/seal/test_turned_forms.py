"""Texts turned into other forms are read back, and what nobody turned is left alone."""

from __future__ import annotations

import codecs
from typing import Any

import pytest
from kinds_turned import FORMS, deflated
from sabotage import Kit

from race.core.leaks.layers import Entry
from race.core.leaks.scanner import LayerScanner
from race.core.leaks.shifted import turned
from race.core.leaks.unpack import parts


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_read_back(name: str, kit: Kit) -> None:
    """The text itself comes out, whatever the form; nothing of it is lost."""
    form = FORMS[name][1](kit.counter)
    held = [form, *(part.data for part in parts(form))]
    assert any(kit.counter.encode() in data for data in held)


@pytest.mark.parametrize(
    "data",
    [
        b"def total(self):\n    return self.count + 1\n" * 9,
        bytes(range(256)) * 20,
        b"0 1 2 3 4 5 6 7 8 9\n" * 40,
        b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n" * 40,
        "".join(f"{n:04x} {n * 7:06d} <{n}>;" for n in range(400)).encode(),
        "Wörter und Sätze, wie man sie schreibt.\n".encode() * 20,
        "слова и предложения\n".encode() * 20,
        b"\0" * 4096,
        b"ABCDEFGH" * 300,
        codecs.encode("plain prose in other letters\n" * 30, "rot13").encode(),
    ],
)
def test_what_nobody_turned_is_left_alone(data: bytes) -> None:
    """Code, tables, digests, prose of other languages and fillings are no turned text."""
    assert not list(turned(data))


def test_a_stream_without_a_header_is_told_as_opened(workshop: Any, kit: Kit) -> None:
    """What could be opened does not stand among what looks random and was not."""
    scanner = LayerScanner(workshop.strict, "/repo")
    data = deflated(kit.counter + "".join(f"x{n * n % 7919} = {n**3}\n" for n in range(900)))
    scanner.add(Entry("/opt/x", "f", len(data), 0, 0o644), data)
    scan = scanner.finish("sha256:0", 0)
    assert scan.hits
    assert not scan.unread
