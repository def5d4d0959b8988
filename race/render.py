"""Templates: images/ and reports/, from the checkout or from inside the installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Where `images` or `reports` lie: inside an installed wheel, else beside the package."""
    inside = _PACKAGE / "_data" / name
    if inside.is_dir():
        return inside
    beside = _PACKAGE.parent / name
    return beside / "templates" if name == "reports" else beside


@cache
def _environment(kind: str) -> Environment:
    """Compiled templates are kept: a site of two hundred pages compiles each of them once."""
    return Environment(
        loader=FileSystemLoader(data_folder(kind)),
        undefined=StrictUndefined,
        autoescape=kind == "reports",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(kind: str, template: str, **values: Any) -> str:
    """One template of images/ or reports/; an undefined name is an error. Pages are escaped."""
    return _environment(kind).get_template(template).render(**values)
