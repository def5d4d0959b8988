"""Signals from code: what the fix does, what its tests do, and whether the two belong together."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from race.core.mining.code import Facts
from race.core.mining.diffs import Section
from race.core.mining.prose import PROSE
from race.core.mining.vocabulary import WORD_FAMILIES
from race.core.mining.word_signals import remark_signals, share

FAMILIES = tuple(sorted(set(WORD_FAMILIES.values()) | {"event", "file"}))
MARKS_ONLY = "not:test-marks-only"
"""Decides alone: such tests cannot fail without the fix."""
SKIPS_ALONE = "not:test-skips-alone"
"""Decides alone: nothing new is checked, something is skipped."""
_OWN = ("lock", "wake", "cancel", "task", "loop", "thread", "race", "context", "hang", "leak", "event")
_CONCURRENT = frozenset(
    ["gather", "create_task", "ensure_future", "start_soon", "create_task_group", "TaskGroup",
     "open_nursery", "Thread", "ThreadPoolExecutor", "submit", "run_in_executor", "run_sync",
     "to_thread", "Barrier", "Process", "Popen", "spawn", "run_coroutine_threadsafe",
     "call_soon_threadsafe", "call_soon", "call_later", "as_completed", "start"]
)  # fmt: skip
_AT_ONCE = frozenset(
    ["gather", "TaskGroup", "create_task_group", "open_nursery", "Barrier", "ThreadPoolExecutor",
     "Thread", "create_task", "ensure_future", "start_soon", "Process"]
)  # fmt: skip
_LIMITS = frozenset(["wait_for", "fail_after", "move_on_after", "timeout", "join", "wait"])
_SYNCS = frozenset(
    ["Event", "Lock", "RLock", "Condition", "Semaphore", "Barrier", "Future", "Queue", "set",
     "acquire", "release", "notify", "notify_all", "set_result", "set_exception", "CapacityLimiter",
     "put_nowait", "get_nowait"]
)  # fmt: skip
_CANCELS = frozenset(
    ["cancel", "uncancel", "cancelling", "cancelled", "shield", "CancelScope", "cancel_scope", "athrow"]
)
_CLOSES = frozenset(
    ["close", "aclose", "stop", "shutdown", "disconnect", "terminate", "kill", "wait_closed",
     "__aexit__", "__exit__", "__del__", "collect"]
)  # fmt: skip
_SLEEPS = frozenset(["sleep", "sleep_forever", "checkpoint", "wait_all_tasks_blocked", "yield_"])
_CARE = ("shield", "uncancel", "cancelling", "aclosing")
_HANDS_OVER = (
    "call_soon_threadsafe", "run_coroutine_threadsafe", "call_soon", "run_sync", "run_in_executor",
    "to_thread",
)  # fmt: skip
_WAKES = ("set", "notify", "notify_all", "set_result", "set_exception")
_STEM = re.compile(r"^tests?_|_tests?$")


def product_signals(facts: Facts, parts: Sequence[Section]) -> dict[str, float]:
    """What changed product code does, before and after."""
    both, new = facts.new + facts.old, facts.new
    found = {f"fix:says-{family}": share(both[f"says:{family}"], 3) for family in FAMILIES}
    near = ("lock", "wake", "cancel", "task", "loop", "thread")
    caught = ("RuntimeError", "InvalidStateError", "KeyError")
    care = both["except:cancel"] * 2 + both["with:cancel"] + _calls(both, _CANCELS)
    found |= {
        "fix:near-matter": share(sum(facts.near[f"says:{family}"] for family in near), 10),
        "fix:locks": share(both["with:lock"] + _calls(both, _SYNCS), 2),
        "fix:cancels": share(care, 2),
        "fix:starts": share(_calls(both, _CONCURRENT) + both["with:tasks"], 2),
        "fix:closes": share(_calls(both, _CLOSES), 2),
        "fix:awaits": share(both["await"] + both["async with"], 2),
        "fix:in-async": share(facts.async_functions + facts.near["await"], 2),
        "fix:guards": share(new["if:state"], 1),
        "fix:catches": share(sum(new[f"except:{name}"] for name in caught), 1),
        "fix:catches-cancel": share(both["except:cancel"], 1),
        "fix:copies": share(new["for:copy"], 1),
        "fix:in-place": share(facts.kept_lines, max(1, facts.lines_new)),
        "fix:takes-away": share(facts.lines_old, max(1, facts.lines_new)),
        "not:new-api": share(facts.new_public, 2),
        "not:new-parameters": share(facts.new_parameters, 1),
        "not:new-files": float(any("new file mode" in part.modes for part in parts)),
        "not:large": share(math.log2(1 + facts.lines_new + facts.lines_old) / 10, 1),
        "not:many-files": share(max(0, len(parts) - 2), 5),
    }
    return found | _gains(facts) | remark_signals("fix", facts.remarks)


def _gains(facts: Facts) -> dict[str, float]:
    """What the code does more often after the change than before it."""

    def gain(*names: str) -> float:
        return float(sum(facts.new[n] for n in names) > sum(facts.old[n] for n in names))

    def calls(names: Sequence[str]) -> list[str]:
        return [f"call:{name}" for name in names]

    locks = calls(["Lock", "RLock", "Condition", "Semaphore", "acquire", "Barrier"])
    return {
        "fix:gains-lock": gain("with:lock", *locks),
        "fix:gains-cancel-care": gain("except:cancel", "with:cancel", *calls(_CARE)),
        "fix:tidies-on-cancel": gain("except:cancel-again"),
        "fix:gains-await": gain("await", "async with", "async for"),
        "fix:gains-threadsafe": gain(*calls(_HANDS_OVER)),
        "fix:gains-context": gain("says:context"),
        "fix:gains-wake": gain("says:wake", *calls(_WAKES)),
    }


def check_signals(facts: Facts, product: Facts) -> dict[str, float]:
    """What changed tests do, and whether they are more than the old ones in another dress."""
    new = facts.new
    names = [n for n in facts.new_functions if n.lower().startswith(("test", "async_test"))]
    names += facts.quoted_tests
    told = "\n".join(name.replace("_", " ") for name in names)
    found = {f"test:named-{name}": float(pattern.count(told) > 0) for name, pattern in PROSE.items()}
    found |= {f"test:says-{family}": share(new[f"says:{family}"], 4) for family in FAMILIES}
    inner = new["def"] + new["async def"] - len(facts.new_functions)
    own = sum(new[f"says:{family}"] for family in _OWN)
    acts = {
        "starts": share(_calls(new, _CONCURRENT) + new["with:tasks"], 2),
        "limits": share(_calls(new, _LIMITS) + new["with:cancel"], 2),
        "syncs": share(_calls(new, _SYNCS) + new["with:lock"], 2),
        "cancels": share(_calls(new, _CANCELS) + new["except:cancel"], 2),
        "sleeps": share(_calls(new, _SLEEPS), 2),
        "expects": share(new["with:raises-async"], 1),
    }
    several = sum(value > 0 for value in acts.values())
    found |= {f"test:{name}": value for name, value in acts.items()} | {
        "test:new": float(bool(names)),
        "test:nested": share(max(0, inner), 2),
        "test:nonlocal": share(new["nonlocal"], 1),
        "test:at-once": share(_calls(new, _AT_ONCE) + new["with:tasks"], 1),
        "test:closes": share(_calls(new, _CLOSES), 2),
        "test:awaits": share(new["await"] + new["async with"], 4),
        "test:dense": share(own, max(4, 0.5 * facts.lines_new)),
        "test:fresh": share(facts.fresh, 12),
        "test:acts-2": float(several >= 2),
    }
    return found | _doubts(facts, product, names, several) | remark_signals("test", facts.remarks)


def _doubts(facts: Facts, product: Facts, names: Sequence[str], several: int) -> dict[str, float]:
    """Why the changed tests may say nothing about the fix."""
    checks, skips = facts.new["check"] > 0, facts.new["skip"] > 0
    size = product.lines_new + product.lines_old
    unchecked = not (names or checks or several)
    doubts = {
        MARKS_ONLY: facts.inert,
        SKIPS_ALONE: skips and not checks and not names,
        "not:test-no-new": not names,
        "not:test-no-check": not names and not checks,
        "not:test-nothing-fresh": facts.fresh < 3,
        "not:test-renames-alone": not names and facts.fresh == 0,
        "not:test-checks-nothing": unchecked,
        "not:test-checks-nothing-fresh": unchecked and facts.fresh < 5,
        "not:test-skips": skips and not names,
        "not:test-rewrites": share(facts.lines_old, 40),
        "not:test-larger": share(facts.lines_new / (1 + size), 40),
    }
    return {name: float(value) for name, value in doubts.items()}


def linking_signals(
    tests: Facts, product: Facts, test_paths: Sequence[str], product_paths: Sequence[str]
) -> dict[str, float]:
    """Do the changed tests speak of what the fix changes?"""
    named = {name for name in product.touched if len(name) > 3 and name != "__init__"}
    return {
        "test:calls-changed": float(bool(named & tests.said)),
        "test:same-module": float(bool(_stems(test_paths) & _stems(product_paths))),
    }


def _stems(paths: Sequence[str]) -> set[str]:
    return {_STEM.sub("", path.rsplit("/", 1)[-1].split(".")[0]).strip("_") for path in paths}


def _calls(counter: Counter[str], names: frozenset[str]) -> int:
    return sum(counter[f"call:{name}"] for name in names)
