"""Starts a container of an image as an agent's is started, and asks it what it can see and reach."""

from __future__ import annotations

from typing import Any

from race.core.leaks.layers import ImageView
from race.core.leaks.live import from_python, from_shell, shell_script
from race.errors import Accident, EngineDown
from race.ports import Container, ContainerSpec, Engine, Image, Limits
from race.render import data_folder

SECONDS = 60.0
_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3", "/opt/venv/bin/python", "/usr/bin/python")


def live_facts(engine: Engine, image: Image, view: ImageView) -> tuple[dict[str, Any] | None, str]:
    """What a container reports, or None and why there is no report."""
    if not any(path in view.final for path in ("/bin/sh", "/usr/bin/sh")):
        return None, "the image has no shell to start a container with"
    workdir = view.workdir if view.workdir in view.final else "/"
    spec = ContainerSpec(image=image.id, workdir=workdir, limits=Limits(pids=256), lifetime=300)
    try:
        with engine.container(spec) as container:
            return _asked(container, view)
    except EngineDown:
        raise
    except Accident as error:
        return None, f"no container of it starts: {error}"


def _asked(container: Container, view: ImageView) -> tuple[dict[str, Any] | None, str]:
    python = next((path for path in _PYTHONS if path in view.final), "")
    if python:
        script = (data_folder("images") / "probe" / "live.py").read_text()
        command = [python, "-I", "-S", "-c", script, view.workdir]
        facts = from_python(container.run(command, timeout=SECONDS).output)
        if facts is not None:
            return facts, ""
    result = container.run(["sh", "-c", shell_script()], timeout=SECONDS)
    if result.exit_code != 0:
        return None, f"its shell did not answer (exit {result.exit_code})"
    return from_shell(result.output), ""
