"""Labels: what a tier and a complexity group rest on."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from race.core.attempts import Attempt, contestant, read_attempts, with_attempt, write_attempts
from race.core.tiering import bounds, by_agent, complexity, effort, tier
from race.errors import Malformed, UsageError


def row(**fields: object) -> Attempt:
    """An attempt with what a test cares about."""
    given = {"instance_id": "a__b-1", "agent": "mini-swe-agent", "model": "m", "resolved": True}
    return Attempt.model_validate(given | {"ended": "submitted", "steps": 10} | fields)


@pytest.mark.parametrize(
    ("attempts", "resolved", "label"),
    [
        (0, 0, "unmeasured"),
        (4, 4, "clean"),
        (4, 0, "hard"),
        (4, 1, "split"),
        (4, 3, "split"),
        (1, 1, "clean"),
    ],
)
def test_tiers(attempts: int, resolved: int, label: str) -> None:
    """Clean when every attempt resolves, hard when none does, split between, by exact counts."""
    assert tier(attempts, resolved) == label


@pytest.mark.parametrize(
    ("steps", "group"),
    [(None, None), (1, "short"), (15, "short"), (15.01, "medium"), (40, "medium"), (40.5, "long")],
)
def test_complexity_follows_fixed_cut_points(steps: float | None, group: str | None) -> None:
    """Groups come from fixed upper bounds; without a resolved attempt there is none."""
    assert complexity(steps, 15, 40) == group


def test_effort_counts_resolved_attempts_alone() -> None:
    """Unresolved attempts say nothing about the effort that a solution takes."""
    rows = [row(steps=10), row(steps=20), row(steps=99, resolved=False), row(steps=None)]
    assert effort(rows) == 15
    assert effort([row(resolved=False)]) is None


def test_accidents_are_no_attempts() -> None:
    """A run that ended by an accident of ours is neither a failure nor an attempt."""
    rows = [
        row(attempt=1),
        row(attempt=2, resolved=False, ended="accident"),
        row(attempt=3, resolved=False),
    ]
    (summary,) = by_agent(rows)
    assert (summary.attempts, summary.resolved, summary.ended) == (2, 1, {"submitted": 2})


def test_agents_are_kept_apart_by_model() -> None:
    """Two models behind one scaffold are two lines, with their own means and weighted tokens."""
    tokens = {"input_tokens": 100, "cached_input_tokens": 1000, "output_tokens": 10}
    rows = [row(model="b", **tokens), row(model="a", resolved=False), row(model="b", steps=20)]
    first, second = by_agent(rows)
    assert (first.model, first.resolved, first.steps, first.weighted_tokens) == ("a", 0, None, None)
    assert (second.model, second.attempts, second.steps) == ("b", 2, 15)
    assert second.weighted_tokens == 100 + 0.1 * 1000 + 3 * 10


@pytest.mark.parametrize(
    ("attempts", "resolved", "low", "high"),
    [(4, 4, 0.5101, 1.0), (4, 0, 0.0, 0.4899), (8, 6, 0.4093, 0.9285), (10, 5, 0.2366, 0.7634)],
)
def test_wilson_bounds_by_hand(attempts: int, resolved: int, low: float, high: float) -> None:
    """Wilson's interval, (p + z2/2n -+ z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n) with z = 1.959964."""
    z, n, p = 1.959964, attempts, resolved / attempts
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    centre = p + z * z / (2 * n)
    by_hand = [(centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)]
    assert bounds(attempts, resolved) == (low, high)
    assert (low, high) == pytest.approx(by_hand, abs=1e-4)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.sampled_from(["", "x", "y"]))))
@settings(max_examples=200, deadline=None)
def test_one_row_for_each_attempt(added: list[tuple[str, int, str]]) -> None:
    """Whatever is added, there is one row per key, the newest, and no row of ours of another state."""
    rows: list[Attempt] = []
    for agent, number, state in added:
        rows = with_attempt(rows, row(agent=agent, attempt=number, task=state))
    assert len({entry.key for entry in rows}) == len(rows)
    if added:
        assert rows[-1].task == added[-1][2]
        assert {entry.task for entry in rows} <= {"", added[-1][2]} or not added[-1][2]


def test_rows_of_other_tools_survive() -> None:
    """A row that another tool wrote keeps all its fields, also beside ours."""
    foreign = b'{"instance_id": "a__b-1", "agent": "other", "resolved": false, "colour": "green"}\n'
    rows = with_attempt(read_attempts(foreign, "runs.jsonl"), row(task="x"))
    again = read_attempts(write_attempts(rows), "runs.jsonl")
    assert again == rows
    assert again[0].model_dump()["colour"] == "green"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (b"{", "line 2"),
        (b"[]", "line 2"),
        (b'{"agent": "x", "resolved": true}', "line 2: instance_id"),
        (b'{"instance_id": "x", "agent": "x", "resolved": "perhaps"}', "line 2: resolved"),
        (b'{"instance_id": "x", "agent": "x", "resolved": true, "steps": "many"}', "line 2: steps"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field(line: bytes, place: str) -> None:
    """A malformed runs.jsonl is refused with file, line and field."""
    good = write_attempts([row()])
    with pytest.raises(Malformed, match=rf"^runs\.jsonl: {place}: "):
        read_attempts(good + line + b"\n", "runs.jsonl")


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("scripted/half", "", ("scripted/half", "scripted")),
        ("mini-swe-agent", "openai/x", ("mini-swe-agent", "openai/x")),
        ("mini-swe-agent:openai/x:free", "", ("mini-swe-agent", "openai/x:free")),
    ],
)
def test_names_of_agents(name: str, model: str, expected: tuple[str, str]) -> None:
    """An agent is a script, or the scaffold with a model."""
    assert contestant(name, model) == expected


@pytest.mark.parametrize(
    ("name", "model"), [("mini-swe-agent", ""), ("scripted/half", "x"), ("gpt", "x")]
)
def test_odd_names_of_agents(name: str, model: str) -> None:
    """A scaffold without a model, a script with one, and anything else are errors of use."""
    with pytest.raises(UsageError):
        contestant(name, model)
