"""Which wheel of a release fits our base images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

GLIBC = (2, 36)
"""The oldest C library of our base images: wheels may ask for this one or an older one."""


def wheel_tags(python: str, machine: str) -> dict[Tag, int]:
    """The tags of wheels that a base image of this Python can install, with their rank."""
    version = tuple(int(part) for part in python.split("."))
    platforms = [f"manylinux_{GLIBC[0]}_{minor}_{machine}" for minor in range(GLIBC[1], 16, -1)]
    platforms += [f"manylinux2014_{machine}"]
    if machine == "x86_64":
        platforms += [f"manylinux_2_{minor}_{machine}" for minor in range(16, 4, -1)]
        platforms += [f"manylinux2010_{machine}", f"manylinux1_{machine}"]
    platforms += [f"linux_{machine}"]
    found = [*cpython_tags(version, platforms=platforms)]
    interpreter = f"cp{version[0]}{version[1]}"
    found += compatible_tags(version, interpreter=interpreter, platforms=platforms)
    return {tag: rank for rank, tag in reversed([*enumerate(found)])}


def wheel_name(wheel: Mapping[str, Any]) -> str:
    """The file name of a wheel of a lock file, from its name or its address."""
    return str(wheel.get("name") or str(wheel["url"]).rsplit("/", 1)[-1].split("#")[0])


def best_wheel(wheels: Iterable[Mapping[str, Any]], tags: Mapping[Tag, int]) -> Mapping[str, Any] | None:
    """The wheel that an installer would choose, or None."""
    ranked = []
    for wheel in wheels:
        name = wheel_name(wheel)
        try:
            _, _, build, own = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        ranks = [tags[tag] for tag in own if tag in tags]
        if ranks:
            number = -build[0] if build else 0
            ranked.append((min(ranks), number, name, wheel))
    return min(ranked, key=lambda entry: entry[:3])[3] if ranked else None
