"""A pool of connections that tasks share."""

import asyncio
from collections import deque


class PoolClosed(RuntimeError):
    """The pool gives no connections any more."""


class Pool:
    """At most `size` connections; who asks for one more waits in line."""

    def __init__(self, connect, size):
        self._connect = connect
        self._size = size
        self._idle = deque()
        self._waiting = deque()
        self._count = 0
        self._closed = False
        self._handover_guard = asyncio.Lock()

    @property
    def idle(self):
        """How many connections nobody uses."""
        return len(self._idle)

    async def acquire(self, timeout=None):
        """A connection; waits for one when all are taken."""
        if self._idle:
            return self._idle.popleft()
        if self._count < self._size:
            self._count += 1
            return await self._connect()
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(future)
        finally:
            self._forget(future)

    def release(self, connection):
        """Give a connection back."""
        receiver = self._next_live_taker()
        if receiver is not None:
            receiver.set_result(connection)
        else:
            self._idle.append(connection)

    def _next_live_taker(self):
        while self._waiting:
            candidate = self._waiting.popleft()
            if not candidate.done():
                return candidate
        return None

    async def close(self):
        """Close all idle connections."""
        self._closed = True
        for abandoned in list(self._waiting):
            if not abandoned.done():
                abandoned.set_exception(PoolClosed("the pool is closed"))
        async with self._handover_guard:
            while self._idle:
                await self._idle.popleft().close()

    def _forget(self, future):
        future.cancel()
        if future in self._waiting:
            self._waiting.remove(future)
