from relay.counter import EventCounter


def test_counts():
    counter = EventCounter()
    counter.report("a")
    assert counter.total("a") == 1
