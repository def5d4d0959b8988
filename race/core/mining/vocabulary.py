"""The words of the matter in code: what identifiers say when they deal with concurrency.

Identifiers are cut into their words (`_wakeup_next_waiter`, `RLock`), so that no project's own names
are needed. A family is a kind of thing that concurrent code does.
"""

from __future__ import annotations

import re
from functools import lru_cache

WORD_FAMILIES: dict[str, str] = {
    word: family
    for family, words in {
        "lock": "lock locks locked unlock unlocked rlock mutex semaphore semaphores condition barrier "
        "limiter acquire acquired acquires release released releases notify reentrant "
        "reentrancy critical flock serialise serialize_access exclusive",
        "wake": "waiter waiters wakeup wake woken awake awaken waiting",
        "cancel": "cancel cancels cancelled canceled cancelling canceling cancellation uncancel shield "
        "shielded timeout timeouts deadline",
        "task": "task tasks taskgroup nursery future futures fut futs coro coroutine coroutines "
        "gather spawn spawned spawning awaitable greenlet",
        "loop": "loop loops eventloop callsoon threadsafe soon",
        "thread": "thread threads threading threaded multithreaded executor executors threadpool "
        "threadlocal ident worker workers concurrency concurrently parallel subprocess "
        "multiprocessing fork forked pid",
        "race": "concurrent race races racing racy atomic atomically stale interleave "
        "interleaved outdated superseded overtaken toctou inode ino inflight pending",
        "context": "contextvar contextvars ctxvar",
        "close": "close closed closing closes aclose shutdown shut stop stopped stopping stops "
        "disconnect disconnected terminate terminated kill exit finalizer finalize teardown "
        "cleanup dispose abort aborted eof",
        "hang": "deadlock deadlocks deadlocked hang hangs hanging hung stuck block blocked blocking "
        "starve starved starvation livelock forever wedge wedged spin",
        "leak": "leak leaks leaked leaking orphan orphaned dangling unclosed",
    }.items()
    for word in words.split()
}

PRECISE: dict[str, str] = {
    name: family
    for family, names in {
        "lock": "Lock RLock Condition Semaphore BoundedSemaphore Barrier CapacityLimiter notify_all "
        "LOCK_EX flock fcntl lockf notifyAll",
        "event": "Event is_set wait Queue SimpleQueue LifoQueue put_nowait get_nowait task_done",
        "task": "wait create_task ensure_future gather TaskGroup create_task_group open_nursery "
        "start_soon add_done_callback remove_done_callback current_task all_tasks set_result "
        "set_exception InvalidStateError as_completed run_until_complete "
        "set_running_or_notify_cancel eager_start",
        "cancel": "CancelledError CancelScope cancel cancelled cancelling uncancel shield move_on_after "
        "fail_after timeout_at wait_for get_cancelled_exc_class current_effective_deadline "
        "open_cancel_scope cancel_called cancelled_caught BrokenResourceError EndOfStream "
        "ClosedResourceError KeyboardInterrupt GeneratorExit aclosing checkpoint "
        "cancel_shielded_checkpoint",
        "loop": "get_event_loop get_running_loop new_event_loop set_event_loop call_soon call_later "
        "call_at call_soon_threadsafe run_coroutine_threadsafe is_running run_forever "
        "is_closed shutdown_asyncgens shutdown_default_executor add_reader remove_reader "
        "add_callback _get_running_loop",
        "thread": "Thread Timer current_thread get_ident run_in_executor to_thread ThreadPoolExecutor "
        "ProcessPoolExecutor Executor submit run_sync from_thread local daemon is_alive "
        "sync_to_async async_to_sync main_thread active_count Process Popen getpid",
        "context": "ContextVar copy_context run_in_context contextvars ctx_run",
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
