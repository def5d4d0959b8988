"""The counter itself."""

import asyncio


class CounterClosed(Exception):
    """The counter takes no more."""


class Counter:
    """Counts, but reads and writes on two sides of an await."""

    def __init__(self, start: int = 0) -> None:
        self.value = start
        self.closed = False
        self._waiters: list[asyncio.Future[None]] = []

    async def add(self, amount: int = 1) -> int:
        """Add and return the new value."""
        if self.closed:
            raise CounterClosed("closed")
        seen = self.value
        await asyncio.sleep(0)
        self.value = seen + amount
        return self.value

    async def wait_closed(self) -> str:
        """Wait until somebody closes the counter."""
        if self.closed:
            return "closed"
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
        return "closed"

    def close(self) -> None:
        """Close, and wake one of those who wait."""
        self.closed = True
        if self._waiters:
            self._waiters.pop().set_result(None)
