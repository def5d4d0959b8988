"""Core metadata of a project as its build back-end writes it."""

from __future__ import annotations

import email.parser
import re

from packaging.utils import canonicalize_name

from race.core.environment.declared import Declared

EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]|['"]([^'"]+)['"]\s*==\s*extra""")
ALWAYS = "python_version >= '0'"


def read_metadata(text: str) -> Declared:
    """A METADATA file as declared facts: requirements, and for each extra what it adds."""
    message = email.parser.HeaderParser().parsestr(text)
    extras: dict[str, list[str]] = {
        str(canonicalize_name(name)): [] for name in message.get_all("Provides-Extra", [])
    }
    requirements: list[str] = []
    for line in message.get_all("Requires-Dist", []):
        head, _, marker = str(line).partition(";")
        names = [first or second for first, second in EXTRA.findall(marker)]
        rest = EXTRA.sub(ALWAYS, marker).strip()
        item = head.strip() if rest in ("", ALWAYS) else f"{head.strip()}; {rest}"
        if not names:
            requirements.append(item)
        for name in names:
            extras.setdefault(str(canonicalize_name(name)), []).append(item)
    return Declared(
        name=str(canonicalize_name(str(message.get("Name", "")))),
        version=str(message.get("Version", "")),
        requires_python=str(message.get("Requires-Python") or ""),
        classifiers=tuple(str(line) for line in message.get_all("Classifier", [])),
        requirements=tuple(requirements),
        extras={name: tuple(items) for name, items in extras.items()},
    )
