import asyncio

import pytest
from harbour import Pool, PoolClosed


async def park_a_taker(pool):
    task = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    return task


def test_gives_back(connect):
    async def scenario():
        pool = Pool(connect, 1)
        connection = await pool.acquire()
        pool.release(connection)
        assert pool.idle == 1

    asyncio.run(scenario())


def test_cancelled_taker_does_not_swallow_the_connection(connect):
    async def scenario():
        pool = Pool(connect, 1)
        connection = await pool.acquire()
        leaving = await park_a_taker(pool)
        leaving.cancel()
        pool.release(connection)
        await asyncio.gather(leaving, return_exceptions=True)
        assert pool.idle == 1

    asyncio.run(scenario())


def test_closing_wakes_the_waiting_takers(connect):
    async def scenario():
        pool = Pool(connect, 1)
        await pool.acquire()
        waiting = await park_a_taker(pool)
        await pool.close()
        with pytest.raises(PoolClosed, match="the pool is closed"):
            await asyncio.wait_for(waiting, 1)

    asyncio.run(scenario())


def test_acquire_gives_up_after_its_timeout(connect):
    async def scenario():
        pool = Pool(connect, 1)
        await pool.acquire()
        with pytest.raises(TimeoutError):
            await pool.acquire(timeout=0.01)

    asyncio.run(scenario())
