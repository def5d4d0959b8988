"""Runs tests in a container with the grader's launcher and says what became of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from race.core.outcomes import EventReader, Observation, Plan
from race.errors import Accident
from race.ports import Container
from race.render import data_folder

GRADER = "/soma/grader"
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""What the root-owned launcher needs of a container; the tests below it get none of them."""


def grader_files() -> dict[str, bytes]:
    """The grader's modules, by name below its folder in the container."""
    folder = data_folder("images") / "grader"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.py"))}


def observe(
    container: Container,
    plan: Plan,
    on_event: Callable[[dict[str, object]], None] | None = None,
) -> Observation:
    """Run one plan. The container was started with CAPABILITIES; its files are those of the cell.

    Raises EngineDown when the engine breaks and Accident when the launcher itself does.
    """
    return observe_many(container, [plan], lambda _, event: on_event(event) if on_event else None)[0]


def observe_many(
    container: Container,
    plans: Sequence[Plan],
    on_event: Callable[[int, dict[str, object]], None] | None = None,
) -> list[Observation]:
    """Run plans one after the other, each in fresh processes under a user of its own.

    Files that a run leaves in /tmp, /dev/shm or the repository are removed before the next one.
    A process costs about 10 ms and the imports of the project, so that many repeats are cheap.
    """
    request = json.dumps({"runs": [plan.as_json() for plan in plans]}).encode()
    files = {f"{GRADER[1:]}/{name}": data for name, data in grader_files().items()}
    container.put("/", files | {f"{GRADER[1:]}/request.json": request}, mode=0o600)
    reader = EventReader()

    def on_output(chunk: bytes) -> None:
        for number, event in reader.feed(chunk):
            if on_event is not None:
                on_event(number, event)

    limit = sum(plan.run_seconds + 10 for plan in plans) + 30
    result = container.run(
        ["sh", "-c", f"exec $(command -v python3 || echo python) -I -S {GRADER}/launch.py observe"
         f" {GRADER}/request.json"],
        timeout=limit,
        user="root",
        workdir="/",
        on_output=on_output,
    )  # fmt: skip
    if not reader.complete and not result.timed_out:
        tail = result.output[-2000:].decode(errors="replace").strip()
        raise Accident(f"the launcher ended early (exit {result.exit_code}): {tail}")
    return [reader.observation(number) for number in range(len(plans))]
