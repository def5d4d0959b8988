"""Runs tests in a container with the grader's launcher and says what became of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from race.core.outcomes import EventReader, Observation, Plan
from race.errors import Accident
from race.ports import Container
from race.render import data_folder

GRADER = "/soma/grader"
LAUNCH = (
    f"exec $(command -v python3 || echo python) -I -S {GRADER}/launch.py observe {GRADER}/request.json"
)
NOT_DONE = 97
"""Exit status of a script that goes before the tests and could not do its work."""
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""What the root-owned launcher needs of a container; the tests below it get none of them."""


def grader_files() -> dict[str, bytes]:
    """The grader's modules, by name below its folder in the container."""
    folder = data_folder("images") / "grader"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.py"))}


@dataclass(frozen=True)
class Before:
    """What is done in a container before its first test run, in one command with it.

    `files` by path from the root; `script` is a shell's, run by root in /repo, silent when all is well.
    When it ends with NOT_DONE, `failed` is told what it printed and raises.
    """

    files: Mapping[str, bytes]
    script: str
    failed: Callable[[bytes], NoReturn]


def observe(
    container: Container,
    plan: Plan,
    on_event: Callable[[dict[str, object]], None] | None = None,
    before: Before | None = None,
) -> Observation:
    """Run one plan. The container was started with CAPABILITIES; its files are those of the cell.

    Raises EngineDown when the engine breaks and Accident when the launcher itself does.
    """
    return observe_many(
        container, [plan], lambda _, event: on_event(event) if on_event else None, before
    )[0]


def observe_many(
    container: Container,
    plans: Sequence[Plan],
    on_event: Callable[[int, dict[str, object]], None] | None = None,
    before: Before | None = None,
) -> list[Observation]:
    """Run plans one after the other, each in fresh processes under a user of its own.

    Files that a run leaves in /tmp, /dev/shm or the repository are removed before the next one.
    A process costs about 10 ms and the imports of the project, so that many repeats are cheap.
    """
    request = json.dumps({"runs": [plan.as_json() for plan in plans]}).encode()
    files = {f"{GRADER[1:]}/{name}": data for name, data in grader_files().items()}
    files |= {f"{GRADER[1:]}/request.json": request} | dict(before.files if before else {})
    container.put("/", files, mode=0o600)
    reader = EventReader()

    def on_output(chunk: bytes) -> None:
        for number, event in reader.feed(chunk):
            if on_event is not None:
                on_event(number, event)

    limit = sum(plan.run_seconds + 10 for plan in plans) + (150 if before else 30)
    first = f"cd /repo\n{before.script}\ncd /\n" if before else ""
    result = container.run(
        ["sh", "-c", first + LAUNCH], timeout=limit, user="root", workdir="/", on_output=on_output
    )
    if before is not None and result.exit_code == NOT_DONE:
        before.failed(result.output)
    if not reader.complete and not result.timed_out:
        tail = result.output[-2000:].decode(errors="replace").strip()
        raise Accident(f"the launcher ended early (exit {result.exit_code}): {tail}")
    return [reader.observation(number) for number in range(len(plans))]
