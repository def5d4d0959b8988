"""One build on the container engine: its log as it comes, and what a failure of it means."""

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import docker.errors

from race.adapters.docker_seam import translated
from race.errors import Accident, BuildFailed, DiskFull

REFUSED = ("denied", "unauthorized", "not found", "manifest unknown", "no such image")
TAIL_LINES = 40


def run_build(
    api: Any,
    context: Mapping[str, bytes] | Path,
    *,
    tag: str,
    timeout: float,
    on_line: Callable[[str], None],
    **options: Any,
) -> None:
    """Build `tag` from a mapping of files or a tar file; `options` are the SDK's own.

    Raises what `ports.Engine.build` says.
    """
    stream = context.open("rb") if isinstance(context, Path) else io.BytesIO(_tar(context))
    doing, deadline = f"building {tag}", time.monotonic() + timeout
    try:
        with stream, translated(doing):
            events = api.build(
                fileobj=stream,
                custom_context=True,
                tag=tag,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=max(1, int(timeout)),
                **options,
            )
            _follow(events, doing, timeout, deadline, on_line)
    except docker.errors.NotFound as error:
        raise Accident(f"{doing}: {error.explanation}") from error


def _follow(
    events: Generator[dict[str, Any]],
    doing: str,
    timeout: float,
    deadline: float,
    on_line: Callable[[str], None],
) -> None:
    """Read a build's events to their end."""
    step, lines = "reading the Dockerfile", list[str]()
    for event in events:
        for line in str(event.get("stream", "")).splitlines():
            if line.startswith("Step "):
                step = line.split(" : ", 1)[-1]
            if line.strip():
                lines = [*lines[-TAIL_LINES:], line]
                on_line(line)
        if "error" in event:
            for _ in events:  # to the end, so that the connection can be used again
                continue
            _raise(event, doing, step, lines)
        if time.monotonic() > deadline:
            events.close()
            raise BuildFailed(f"{step[:300]} (limit of {timeout:.0f} s)", None, "\n".join(lines))


def _raise(event: Mapping[str, Any], doing: str, step: str, lines: list[str]) -> None:
    """What a failed step means: BuildFailed when a command of it ended with a failure."""
    said = str(event["error"])
    raise_for_space(doing, said)
    _raise_for_base(doing, step, said)
    code = (event.get("errorDetail") or {}).get("code")
    if code is None:
        raise Accident(f"{doing}: {step[:200]}: {said[:500]}")
    raise BuildFailed(step[:300], code, "\n".join([*lines, said])[-4000:])


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o755 if files[name].startswith(b"#!") else 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


def raise_for_space(doing: str, said: str) -> None:
    """Raise DiskFull when that is what the engine said."""
    if "no space left" in said.lower():
        raise DiskFull(f"{doing}: the engine has no room left; `race clean` frees some")


def _raise_for_base(doing: str, step: str, said: str) -> None:
    """What a build starts from, or copies from, is ours to bring: a failure there is no verdict."""
    source = re.match(r"(?:FROM |COPY --from=)(\S+)", step)
    lost = any(word in said.lower() for word in (*REFUSED, "dial tcp", 'get "http'))
    if source is not None and lost and not said.lower().startswith("copy failed"):
        raise Accident(
            f"{doing}: image {source[1]} is not on this engine and no registry has it for us; "
            "run again, `race doctor --fix` makes base images"
        )
