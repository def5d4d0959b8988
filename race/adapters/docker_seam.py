"""Where docker's errors become ours: one translation for every call of the engine adapter."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

import docker.errors
import requests.exceptions
import urllib3.exceptions

from race.errors import Accident, DiskFull, EngineDown

BROKEN = (
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
)


def engine_down(doing: str, error: BaseException) -> EngineDown:
    """EngineDown with what we were doing and the shortest true reason."""
    text = str(error) or type(error).__name__
    if "FileNotFoundError" in text or "No such file" in text:
        text = "its socket is not there"
    elif "Connection refused" in text:
        text = "connection refused"
    elif "Permission denied" in text:
        text = "permission denied on its socket"
    return EngineDown(f"the container engine does not answer ({doing}: {text[:200]}); see `race doctor`")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Runs a block in which every docker error becomes an accident of ours.

    A refused request of a living engine is an Accident, a full disk DiskFull, the rest EngineDown.
    `NotFound` passes through for the caller, who knows what is missing.
    """
    try:
        yield
    except docker.errors.NotFound:
        raise
    except docker.errors.APIError as error:
        said = str(error.explanation or error)
        if "no space left" in said.lower():
            raise DiskFull(f"{doing}: the engine has no room left; `race clean` frees some") from error
        raise Accident(f"{doing}: the engine refused: {said[:300]}") from error
    except docker.errors.DockerException as error:
        raise engine_down(doing, error) from error
    except BROKEN as error:
        raise engine_down(doing, error) from error
