"""Versions that come from git tags, which a tree of one commit does not have."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from race.core.environment.declared import Declared, parsed, table

TAG_READERS = {
    "setuptools-scm": ("SETUPTOOLS_SCM_PRETEND_VERSION",),
    "hatch-vcs": ("SETUPTOOLS_SCM_PRETEND_VERSION",),
    "flit-scm": ("SETUPTOOLS_SCM_PRETEND_VERSION",),
    "vcs-versioning": ("SETUPTOOLS_SCM_PRETEND_VERSION", "VCS_VERSIONING_PRETEND_VERSION"),
    "pbr": ("PBR_VERSION",),
    "poetry-dynamic-versioning": ("POETRY_DYNAMIC_VERSIONING_BYPASS",),
    "uv-dynamic-versioning": ("UV_DYNAMIC_VERSIONING_BYPASS",),
    "pdm-backend": ("PDM_BUILD_SCM_VERSION",),
    "pdm-pep517": ("PDM_PEP517_SCM_VERSION",),
    "scikit-build-core": ("SETUPTOOLS_SCM_PRETEND_VERSION",),
    "maturin": (),
}
"""Build requirements that read tags, and the variables that tell them a version instead."""


def tag_variables(project: Declared, build_requirements: tuple[str, ...]) -> tuple[str, ...]:
    """The variables that must be set for this project's build; empty when it reads no tags."""
    found: list[str] = []
    for item in build_requirements:
        requirement = parsed(item)
        name = requirement.name.lower().replace("_", "-") if requirement else ""
        if name in ("pdm-backend", "pdm-pep517"):
            source = table(project.tools, "pdm", "version").get("source")
            if source != "scm":
                continue
        found += TAG_READERS.get(name, ())
    return tuple(dict.fromkeys(found))


def next_version(latest: str) -> str:
    """The development version that tag readers make after a release; 0.1.dev0 without one."""
    try:
        version = Version(latest)
    except InvalidVersion:
        return "0.1.dev0"
    release = [*version.release, 0, 0][:3]
    release[2] += 0 if version.is_prerelease else 1
    epoch = f"{version.epoch}!" if version.epoch else ""
    return f"{epoch}{'.'.join(str(part) for part in release)}.dev0"
