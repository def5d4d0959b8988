import asyncio
import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

PLUGIN = Path(__file__).parents[2] / "images" / "grader" / "perturb.py"


@pytest.fixture
def perturb(monkeypatch):
    """The plugin as a module; what it changes in asyncio is undone afterwards."""
    monkeypatch.setattr(asyncio.SelectorEventLoop, "__init__", asyncio.SelectorEventLoop.__init__)
    spec = importlib.util.spec_from_file_location("perturb_under_test", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def jittery(perturb):
    """Every loop made from now on is jittery."""
    perturb.jitter(random.Random(7))
    with asyncio.Runner() as runner:
        assert isinstance(runner.get_loop()._selector, perturb.JitterySelector)
        yield runner


def test_callbacks_keep_their_order_under_jitter(jittery):
    """call_soon is first in, first out: asyncio promises it, so jitter leaves it alone."""

    async def main():
        seen = []
        for number in range(500):
            asyncio.get_running_loop().call_soon(seen.append, number)
        await asyncio.sleep(0.02)
        return seen

    assert jittery.run(main()) == list(range(500))


def test_timers_are_late_but_never_early_and_keep_their_order(jittery):
    """A timer may wait for a stalled loop; it does not fire before its time nor overtake another."""

    async def main():
        loop, seen = asyncio.get_running_loop(), []
        start = loop.time()
        for number in range(50):
            due = start + number * 0.002
            loop.call_at(due, lambda due=due: seen.append((due, loop.time())))
        await asyncio.sleep(0.3)
        return seen

    seen = jittery.run(main())
    assert len(seen) == 50
    assert all(now + 0.001 >= due for due, now in seen)
    assert [due for due, _ in seen] == sorted(due for due, _ in seen)
    assert max(now - due for due, now in seen) > 0.001


def test_every_byte_arrives_under_jitter(jittery):
    """Forty clients of an echo server get their answers."""

    async def echo(reader, writer):
        writer.write(await reader.readexactly(5))
        await writer.drain()
        writer.close()

    async def ask(port, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"%05d" % number)
        answer = await reader.readexactly(5)
        writer.close()
        await writer.wait_closed()
        return int(answer)

    async def main():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.gather(*(ask(port, number) for number in range(40)))

    assert jittery.run(main()) == list(range(40))


def test_jitter_reorders_files_that_are_ready_together(perturb):
    """Sockets that are ready in one iteration are served in an order that depends on the seed."""

    def order(seed):
        perturb_rng = random.Random(seed)
        loop, seen = asyncio.SelectorEventLoop(), []
        loop._selector = perturb.JitterySelector(loop._selector, perturb_rng)
        pairs = [socket.socketpair() for _ in range(6)]
        for number, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            loop.add_reader(ours, seen.append, number)
        loop.call_soon(loop.stop)
        loop.run_forever()
        for ours, theirs in pairs:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()
        loop.close()
        return tuple(seen)

    orders = {order(seed) for seed in range(4)}
    assert len(orders) > 1
    assert all(sorted(one) == list(range(6)) for one in orders)
    assert order(1) == order(1)


def _items(names):
    steps = type("TestSteps", (), {})
    return [SimpleNamespace(nodeid=name, cls=steps if "Steps" in name else None) for name in names]


def test_order_changes_between_tests_but_not_inside_a_class(perturb):
    """Files, functions and classes are shuffled by the seed; a class keeps the order of its tests."""
    names = [f"a.py::test_{n}" for n in "abcde"] + [f"a.py::TestSteps::test_{n}" for n in "zyx"]
    names += ["b.py::test_only"]

    def order(seed):
        items = _items(names)
        perturb.shuffle_items(items, random.Random(seed))
        return [item.nodeid for item in items]

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1
    for seed in range(5):
        assert sorted(order(seed)) == sorted(names)
        assert [name[-1] for name in order(seed) if "Steps" in name] == ["z", "y", "x"]


@pytest.mark.parametrize("asked", [None, {"variant": "switch-interval", "seed": 1}])
def test_the_variable_alone_decides_what_a_real_run_gets(tmp_path, asked):
    """A run of pytest with the plugin is perturbed when asked and untouched when not."""
    (tmp_path / "test_switch.py").write_text(
        "import os, sys\n"
        "def test_switch():\n"
        f"    assert (sys.getswitchinterval() < 1e-4) is {asked is not None}\n"
        "    assert 'RACE_PERTURB' not in os.environ\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if asked:
        environment["RACE_PERTURB"] = json.dumps(asked)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "perturb", "-p", "no:cacheprovider"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="event loop policies go away")
def test_uvloop_is_asked_for_where_it_is_installed(perturb, monkeypatch):
    """The policy that makes every new loop is uvloop's; a stand-in module shows it."""
    before = asyncio.get_event_loop_policy()
    stand_in = type("Policy", (asyncio.DefaultEventLoopPolicy,), {})
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(EventLoopPolicy=stand_in))
    try:
        perturb.use_uvloop()
        assert isinstance(asyncio.get_event_loop_policy(), stand_in)
    finally:
        asyncio.set_event_loop_policy(before)
