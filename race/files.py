"""Reads files of a release, which may be anything: bytes and JSON, or one line on what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from race.errors import Malformed


def file_bytes(path: Path) -> bytes:
    """A file's bytes. Raises FileNotFoundError without one, Malformed for a folder, a device or what
    cannot be read. A named pipe is not opened: nobody may ever write into it."""
    if not path.is_file() and (path.exists() or path.is_symlink()):
        raise Malformed(path, "", "is no file")
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise Malformed(path, "", f"cannot be read: {error.strerror}") from error


def json_object(path: Path, text: bytes) -> dict[str, Any]:
    """A JSON object. Malformed names the file for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        said = "too deep" if isinstance(error, RecursionError) else error
        raise Malformed(path, "", f"not JSON: {said}") from error
    if not isinstance(value, dict):
        raise Malformed(path, "", "not an object")
    if b"\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise Malformed(path, "", "holds a half of a character (a lone surrogate)") from error
    return value
