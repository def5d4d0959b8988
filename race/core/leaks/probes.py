"""All probes of a leak audit, in the order of the page, and the run over one image."""

from __future__ import annotations

from race.core.leaks import (
    probes_authority,
    probes_content,
    probes_git,
    probes_image,
    probes_network,
    probes_residue,
)
from race.core.leaks.fragments import Wanted
from race.core.leaks.probing import Probe, Subject
from race.core.sealed import FragmentCounts, ProbeResult

PROBES: tuple[Probe, ...] = (
    *probes_content.PROBES,
    *probes_image.PROBES,
    *probes_git.PROBES,
    *probes_residue.PROBES,
    *probes_network.PROBES,
    *probes_authority.PROBES,
)

GRADING = frozenset(
    {"fix-anywhere", "git-objects", "byte-code", "deleted-files", "git-fixed-blobs", "image-metadata"}
)
"""Probes that a grading image must pass: hidden tests are in it, the fix must not be."""


def run_probes(subject: Subject) -> tuple[ProbeResult, ...]:
    """Every probe's result; for a grading image, those that apply to it."""
    chosen = [p for p in PROBES if not subject.hidden_tests_belong or p.name in GRADING]
    return tuple(probe.run(subject) for probe in chosen)


def counts(wanted: Wanted) -> FragmentCounts:
    """What was looked for, in numbers."""
    return FragmentCounts(
        fix=sum(f.source == "fix" and f.form != "commit" for f in wanted.fragments),
        tests=sum(f.source == "tests" and f.form != "name" for f in wanted.fragments),
        names=len(wanted.names),
        common_lines=wanted.common_lines,
        shortest_leak_lines=wanted.shortest_leak_lines,
    )
