import asyncio

from harbour import Pool


def test_gives_back(connect):
    async def scenario():
        pool = Pool(connect, 1)
        connection = await pool.acquire()
        pool.release(connection)
        assert pool.idle == 1

    asyncio.run(scenario())
