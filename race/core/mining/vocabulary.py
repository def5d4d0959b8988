"""The words of the matter: what code and prose say when they deal with concurrency.

Identifiers are cut into their words (`_wakeup_next_waiter`, `RLock`), so that no project's own names
are needed. A family is a kind of thing that concurrent code does.
"""

from __future__ import annotations

import re
from functools import lru_cache

WORD_FAMILIES: dict[str, str] = {
    family_word: family
    for family, words in {
        "lock": "lock locks locked unlock unlocked rlock mutex semaphore semaphores condition barrier "
        "limiter acquire acquired acquires release released releases notify reentrant "
        "reentrancy critical flock serialise serialize_access exclusive",
        "wake": "waiter waiters wakeup wake woken awake awaken waiting",
        "cancel": "cancel cancels cancelled canceled cancelling canceling cancellation uncancel shield "
        "shielded timeout timeouts deadline",
        "task": "task tasks taskgroup nursery future futures fut futs coro coroutine coroutines gather "
        "spawn spawned spawning awaitable greenlet",
        "loop": "loop loops eventloop callsoon threadsafe soon",
        "thread": "thread threads threading threaded multithreaded executor executors threadpool "
        "threadlocal ident worker workers concurrent concurrency concurrently parallel "
        "subprocess multiprocessing fork forked pid",
        "context": "context contextvar contextvars contexts",
        "close": "close closed closing closes aclose shutdown shut stop stopped stopping stops disconnect "
        "disconnected terminate terminated kill exit finalizer finalize teardown cleanup "
        "dispose abort aborted eof",
        "race": "race races racing racy atomic atomically stale concurrent interleave interleaved toctou "
        "inode ino inflight pending",
        "hang": "deadlock deadlocks deadlocked hang hangs hanging hung stuck block blocked blocking "
        "starve starved starvation livelock forever wedge wedged spin",
        "leak": "leak leaks leaked leaking orphan orphaned dangling unclosed",
    }.items()
    for family_word in words.split()
}

PRECISE: dict[str, str] = {
    name: family
    for family, names in {
        "lock": "Lock RLock Condition Semaphore BoundedSemaphore Barrier CapacityLimiter notify_all "
        "LOCK_EX flock fcntl lockf notifyAll",
        "event": "Event set clear is_set wait Queue SimpleQueue LifoQueue put_nowait get_nowait task_done "
        "join get put",
        "cancel": "CancelledError CancelScope cancel cancelled cancelling uncancel shield move_on_after "
        "fail_after timeout_at wait_for get_cancelled_exc_class current_effective_deadline "
        "open_cancel_scope cancel_called cancelled_caught BrokenResourceError EndOfStream "
        "ClosedResourceError KeyboardInterrupt GeneratorExit aclosing checkpoint "
        "cancel_shielded_checkpoint",
        "task": "create_task ensure_future gather TaskGroup create_task_group open_nursery start_soon "
        "add_done_callback remove_done_callback current_task all_tasks set_result set_exception "
        "InvalidStateError as_completed wait run_until_complete set_running_or_notify_cancel "
        "eager_start",
        "loop": "get_event_loop get_running_loop new_event_loop set_event_loop call_soon call_later call_at "
        "call_soon_threadsafe run_coroutine_threadsafe is_running run_forever is_closed "
        "shutdown_asyncgens shutdown_default_executor add_reader remove_reader add_callback "
        "_get_running_loop",
        "thread": "Thread Timer current_thread get_ident run_in_executor to_thread ThreadPoolExecutor "
        "ProcessPoolExecutor Executor submit run_sync from_thread local daemon is_alive "
        "sync_to_async async_to_sync main_thread active_count Process Popen getpid",
        "context": "ContextVar copy_context run_in_context contextvars",
        "close": "close aclose wait_closed shutdown __aexit__ __exit__ __del__ finalize weakref "
        "AsyncExitStack atexit",
        "file": "O_EXCL unlink rename replace fstat st_ino st_mtime_ns link fsync O_CREAT rmdir",
    }.items()
    for name in names.split()
}
"""Identifiers that mean one thing wherever they stand."""

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@lru_cache(maxsize=1 << 16)
def families(identifier: str) -> frozenset[str]:
    """The families that an identifier belongs to, by its words and as a whole."""
    found = {WORD_FAMILIES.get(word.lower(), "") for word in _WORDS.findall(identifier)}
    found.add(PRECISE.get(identifier, ""))
    found.discard("")
    return frozenset(found)


FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix|fixes|gy)?|prevent(s|ed|ing)?|avoid(s|ed|ing)?|ensure(s|d)?|resolv(e[sd]?|ing)|"
    r"correct(s|ed|ly)?|handl(e|es|ed|ing)|do(n.t| not)|guard(s|ed)?|never|no longer|properly|"
    r"regression|hardens?|protect|restor(e|es|ed)|preserv(e|es|ed)|rais(e|es|ed)|only|always|"
    r"crash(es|ed)?|fail(s|ed|ure)?|error|wrong(ly)?|incorrect(ly)?|miss(ed|ing)|lost|los(e|es|ing)|drop(s|ped|ping)?|"
    r"swallow(s|ed|ing)?|unexpected(ly)?|broken|issue)\b",
    re.IGNORECASE,
)
STRONG_FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix|fixes)?|prevent(s|ed|ing)?|avoid(s|ed|ing)?|resolv(e|es|ed|ing))\b",
    re.IGNORECASE,
)
FEATURE = re.compile(
    r"^\W*(feat|feature|add(s|ed|ing)?|implement(s|ed|ing|ation)?|introduc(e|es|ed|ing)|support(s|ed|ing)?|"
    r"new|allow(s|ed|ing)?|enable[sd]?|expose[sd]?|provid(e|es|ed)|improv(e|es|ed)|optional(ly)?|option|rename[sd]?|refactor(s|ed|ing)?|"
    r"remov(e|es|ed|ing)|drop(s|ped)?|deprecat(e|es|ed)|updat(e|es|ed|ing)|simplif(y|ies|ied)|clean(s|ed)?|"
    r"mov(e|es|ed)|chang(e|es|ed)|switch(ed|es)?|replac(e|es|ed)|us(e|es|ed|ing)|convert(s|ed)?|rewrit(e|es)|rework(s|ed)?|bump|upgrade|typ(e|ing|es)|"
    r"perf|docs?|chore|refactoring|ci|build|style|speed|optimi[sz]e[sd]?|reduc(e|es|ed)|make[sd]?|made|warn)\b",
    re.IGNORECASE,
)
FEATURE_ANYWHERE = re.compile(
    r"\b(feature|add(s|ed)? (a |an |the |new )?|support(s|ed)? for|new |option(s|al|ally)?|implement(s|ed)?|extension|"
    r"refactor(s|ed|ing)?|performance|speed ?up|deprecat\w+|rename[sd]?|typing|annotations?|"
    r"refcycles?|reference cycles?|cyclic|garbage|docs?|documentation|logging|metrics?|tracing)\b",
    re.IGNORECASE,
)
TEST_WORK = re.compile(
    r"\b(tests?|flak(y|iness|e)|deflake|testing|test suite|ci|coverage|regression test|fixtures?)\b"
    r"|^\W*(tests?)\b|\btest_\w+",
    re.IGNORECASE,
)
PROSE: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "race": r"\brac(e|es|ing|y)\b(?! ?(track|car))|race[- ]condition|\btoctou\b|\bstale\b|\bconcurren(t|tly|cy)\b|simultaneous|"
        r"\batomic(ally|ity)?\b|at the same time|interleav|out[- ]of[- ]order|in[- ]flight|non-atomic",
        "deadlock": r"dead-?lock|live-?lock|\bself-deadlock|lock inversion|re-?entran(t|cy)",
        "hang": r"\bhang(s|ing)?\b|\bhung\b|\bstuck\b|never (return|finish|complet|wake|terminat|resolv)|forever|"
        r"indefinite(ly)?|\bfreez(e|es|ing)\b|\bfroze\b|\bblock(s|ed|ing)? (the )?(event )?loop|\bunblock|spin(s|ning)?\b|100% cpu|starv",
        "cancel": r"cancel|\bshield|\buncancel",
        "shutdown": r"shut(ting)? ?down|\bclos(e|es|ed|ing|ure)\b|\bstop(s|ped|ping)?\b|tear ?down|disconnect|graceful|finali[sz]|\bexit(s|ing|ed)?\b",
        "leak": r"\bleak(s|ed|ing|y)?\b|orphan|dangling|unclosed|not (being )?(released|returned|closed)|never (released|closed)",
        "thread": r"thread[- _]?(safe|safety|local|pool)|\bthread(s|ed|ing)?\b|multi-?thread|free-?thread|\bexecutor",
        "loop": r"event loop|\bloop\b|eventloop|running loop|call_soon",
        "lock": r"\block(s|ed|ing)?\b|mutex|semaphore|\bcondition\b|critical section|\bacquir|\brelease[sd]?\b|wake-?up|\bwaiter|notif(y|ied)",
        "context": r"context ?var|\bcontextvars\b|thread[- ]local|\bcontext\b (leak|propagat|isolat)|\bsniffio\b",
        "task": r"\btasks?\b|coroutine|\bawait|\bfutures?\b|\basync(io)?\b|\bnursery\b|task ?group|\btrio\b|\banyio\b|background",
        "timeout": r"time-?outs?|timed out|deadline",
    }.items()
}
