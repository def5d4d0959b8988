import threading

from relay.counter import EventCounter


def test_counts():
    counter = EventCounter()
    counter.report("a")
    assert counter.total("a") == 1


def test_no_report_is_lost_between_threads():
    counter = EventCounter()

    def hammer():
        for _ in range(50_000):
            counter.report("hits")

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.total("hits") == 200_000
