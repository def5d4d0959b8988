"""One thing that hidden tests rely on and the base lacks; how a statement says it, and back again."""

from __future__ import annotations

import re
from typing import Literal

from race.core.records import Closed

ItemKind = Literal[
    "module", "class", "exception", "function", "name", "method", "attribute", "parameter", "coroutine",
    "result", "fixture", "warning", "message", "text",
]  # fmt: skip


class InterfaceItem(Closed):
    """`name` is dotted, as a test would write it. `detail` depends on the kind.

    class, function, method: the call that tests make of it, as `(a, *, b=...)`. exception, warning:
    its base class. parameter: the callable that takes it. result: what is returned. message, text:
    the exception it belongs to, or nothing; the wording is the name. `asynchronous`: the result is
    awaited. `position`: the place of a parameter that tests pass by position, from 1. `tests`:
    which fail-to-pass tests rely on it.
    """

    kind: ItemKind
    name: str
    detail: str = ""
    asynchronous: bool = False
    position: int = 0
    tests: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """The name that a program would write: the last part."""
        return self.name if self.kind in ("message", "text") else self.name.rpartition(".")[2]

    def sentence(self) -> str:
        """The line of a statement that says it, without a bullet."""
        kind = f"asynchronous {self.kind}" if self.asynchronous else self.kind
        if self.kind in ("class", "function", "method"):
            return f"{kind} `{self.name}{self.detail}`"
        if self.kind in ("exception", "warning"):
            return f"{kind} `{self.name}`, a kind of `{self.detail or 'Exception'}`"
        if self.kind == "parameter":
            place = f", position {self.position}" if self.position else ""
            return f"parameter `{self.name}` of `{self.detail}(...)`{place}"
        if self.kind == "coroutine":
            return f"`{self.name}(...)` is awaited: a coroutine function"
        if self.kind == "result":
            return f"`{self.name}(...)` returns {self.detail}"
        if self.kind == "message":
            owner = f" of `{self.detail}`" if self.detail else ""
            return f"message{owner}: `{_tick(self.name)}`"
        if self.kind == "text":
            return f"text `{_tick(self.name)}`"
        return f"{kind} `{self.name}`"


def _tick(text: str) -> str:
    """A text that fits between backticks on one line."""
    return text.replace("`", "'").replace("\n", " ")


_NAME = r"[A-Za-z_][\w.]*"
_LINES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (rf"^module `({_NAME})`", "module"),
        (rf"^(?:exception|warning) `({_NAME})`, a kind of `({_NAME})`", "exception"),
        (rf"^(?:asynchronous )?class `({_NAME})(\(.*\))?`", "class"),
        (rf"^(?:asynchronous )?function `({_NAME})(\(.*\))?`", "function"),
        (rf"^(?:asynchronous )?method `({_NAME})(\(.*\))?`", "method"),
        (rf"^attribute `({_NAME})`", "attribute"),
        (rf"^name `({_NAME})`", "name"),
        (rf"^fixture `({_NAME})`", "fixture"),
        (rf"^parameter `({_NAME})` of `({_NAME})\(.*\)`", "parameter"),
        (rf"^`({_NAME})\(.*\)` is awaited", "coroutine"),
        (rf"^`({_NAME})\(.*\)` returns ([\w ]+)", "result"),
        (r"^message(?: of `([^`]+)`)?: `([^`]+)`", "message"),
        (r"^text `([^`]+)`", "text"),
    )
)
_POSITION = re.compile(r", position (\d+)")


def read_interface(statement: str) -> list[InterfaceItem]:
    """The items that a statement's bullet lines say, for somebody who has nothing else."""
    items: list[InterfaceItem] = []
    for line in statement.splitlines():
        if not line.lstrip().startswith(("- ", "* ")):
            continue
        text = line.lstrip()[2:].strip()
        for pattern, kind in _LINES:
            match = pattern.match(text)
            if match is None:
                continue
            groups = [group or "" for group in match.groups()] + [""]
            name, detail = groups[0], groups[1]
            if kind == "message":
                name, detail = detail, name
            position = _POSITION.search(text)
            items.append(
                InterfaceItem.model_validate(
                    {
                        "kind": kind,
                        "name": name,
                        "detail": detail,
                        "asynchronous": text.startswith("asynchronous "),
                        "position": int(position[1]) if position else 0,
                    }
                )
            )
            break
    return items
