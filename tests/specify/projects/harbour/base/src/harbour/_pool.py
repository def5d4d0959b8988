"""A pool of connections that tasks share."""

import asyncio
from collections import deque


class Pool:
    """At most `size` connections; who asks for one more waits in line."""

    def __init__(self, connect, size):
        self._connect = connect
        self._size = size
        self._idle = deque()
        self._waiting = deque()
        self._count = 0
        self._closed = False

    @property
    def idle(self):
        """How many connections nobody uses."""
        return len(self._idle)

    async def acquire(self):
        """A connection; waits for one when all are taken."""
        if self._idle:
            return self._idle.popleft()
        if self._count < self._size:
            self._count += 1
            return await self._connect()
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return await future

    def release(self, connection):
        """Give a connection back."""
        if self._waiting:
            self._waiting.popleft().set_result(connection)
        else:
            self._idle.append(connection)

    async def close(self):
        """Close all idle connections."""
        self._closed = True
        while self._idle:
            await self._idle.popleft().close()

    def _forget(self, future):
        self._waiting.remove(future)
