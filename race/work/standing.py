"""Where one task stands: per stage accepted, rejected, stale or due, and one line for a person."""

from __future__ import annotations

from typing import Any

from race.store import STAGE_ORDER, Store
from race.work.stage import stage_named


def stands(store: Store, instance_id: str) -> dict[str, Any]:
    """The standing of a task: `stages` (name -> state), `state`, `verdict`, `reasons`.

    `state` is verified, rejected or pending. A stage is stale when what it read has changed, and
    everything after a stale stage is stale as well.
    """
    task = store.task(instance_id)
    states = dict.fromkeys(STAGE_ORDER, "")
    stale = False
    for name in STAGE_ORDER:
        stage = stage_named(name)
        record = task.read(stage.record)
        if record is None:
            states[name] = "due"
            return _answer(instance_id, states, "pending", f"{name} is due")
        stale = stale or (name != "mine" and record.inputs != stage.inputs(task, store))
        if stale:
            states[name] = "stale"
            continue
        states[name] = "accepted" if record.accepted else "rejected"
        if not record.accepted:
            verdict = f"rejected by {name}: {'; '.join(record.reasons)}"
            return _answer(instance_id, states, "rejected", verdict, record.reasons)
    if stale:
        first = next(name for name in STAGE_ORDER if states[name] == "stale")
        return _answer(instance_id, states, "pending", f"{first} is due again: what it read has changed")
    return _answer(instance_id, states, "verified", "verified")


def _answer(
    instance_id: str, states: dict[str, str], state: str, verdict: str, reasons: list[str] | None = None
) -> dict[str, Any]:
    return {
        "instance_id": instance_id,
        "stages": states,
        "state": state,
        "verdict": verdict,
        "reasons": reasons or [],
    }
