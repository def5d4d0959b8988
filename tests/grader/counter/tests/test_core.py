import pytest

from counter import Counter, CounterClosed


async def test_add_returns_the_value(counter: Counter) -> None:
    assert await counter.add(2) == 2
    assert await counter.add(3) == 5


async def test_closed_counter_refuses(counter: Counter) -> None:
    counter.close()
    with pytest.raises(CounterClosed):
        await counter.add()


async def test_wait_on_closed(counter: Counter) -> None:
    counter.close()
    assert await counter.wait_closed() == "closed"


class TestStart:
    @pytest.mark.parametrize("start", [0, 7, -1])
    def test_start(self, start: int) -> None:
        assert Counter(start).value == start


@pytest.mark.never
def test_left_out() -> None:
    raise AssertionError("never run")
