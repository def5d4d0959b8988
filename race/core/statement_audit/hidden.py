"""Rules against text that a person does not see, or does not read at once."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
import urllib.parse
from collections.abc import Iterator

from race.core.records import Finding
from race.core.statement_audit.case import Case
from race.core.statement_audit.disclosure import disclosure

_INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)


def hidden(case: Case) -> Iterator[Finding]:
    """Text that a person does not see or read at once."""
    for line in case.lines:
        if _INVISIBLE.search(line.text):
            yield case.found("hidden-text", line, "invisible characters", ascii(line.text))
        if "<!--" in line.text or re.search(
            r"<(?:details|script|style|img|a|span|div)\b", line.text, re.IGNORECASE
        ):
            yield case.found("hidden-text", line, "a comment or markup that pages hide", line.text)
        for match in re.finditer(r"(?<![\w+/=])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w+/=])", line.text):
            decoded = _decoded(match[0])
            if decoded and match[0] not in case.base_identifiers:
                yield case.found("encoded", line, f"encoded text ({decoded[:40]!r})", match[0])
    mine = {(item.rule, item.message) for item in disclosure(case)}
    for what, turned in _turned(case.statement):
        if turned == case.statement:
            continue
        other = case.reading(turned)
        for finding in disclosure(other):
            telling = finding.rule in ("fix-line", "test-code", "fix-identifier") or (
                finding.rule == "test-name" and "name of a hidden" in finding.message
            )
            if telling and (finding.rule, finding.message) not in mine:
                yield _as_encoded(finding, f"{what}, it gives away {finding.message}")


def _as_encoded(finding: Finding, message: str) -> Finding:
    """The same place under the rule of encoded text."""
    return finding.model_copy(update={"rule": "encoded", "message": message})


def _decoded(text: str) -> str:
    """What base64 or hex text says, when it says something readable."""
    candidates: list[bytes] = []
    try:
        candidates.append(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        pass
    try:
        candidates.append(bytes.fromhex(text))
    except ValueError:
        pass
    for data in candidates:
        try:
            shown = data.decode("ascii")
        except UnicodeDecodeError:
            continue
        if shown.isprintable() or "\n" in shown:
            return shown
    return ""


def _turned(text: str) -> Iterator[tuple[str, str]]:
    """The statement read in other ways."""
    yield "with its letters normalised", _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    yield "with entities resolved", html.unescape(text)
    yield "with percent signs resolved", urllib.parse.unquote(text)
    yield "read as rot13", codecs.encode(text, "rot13")
    yield "read backwards", "\n".join(line[::-1] for line in text.splitlines())
