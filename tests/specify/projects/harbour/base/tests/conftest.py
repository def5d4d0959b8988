import pytest


class Connection:
    def __init__(self):
        self.open = True

    async def close(self):
        self.open = False


@pytest.fixture
def connect():
    async def make():
        return Connection()

    return make
