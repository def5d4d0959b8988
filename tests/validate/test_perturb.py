import asyncio
import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import time
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


RUNNER = """
import importlib.util, sys, pytest
spec = importlib.util.spec_from_file_location("perturb", sys.argv[1])
perturb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(perturb)
sys.exit(pytest.main(["-q", "-s", "-p", "no:cacheprovider"], plugins=[perturb]))
"""


def _run(folder: Path, variant: str, source: str):
    (folder / "test_it.py").write_text(source)
    (folder / "conftest.py").write_text("import os\nassert 'RACE_PERTURB' not in os.environ\n")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["RACE_PERTURB"] = json.dumps({"variant": variant, "seed": 1})
    return subprocess.run(
        [sys.executable, "-c", RUNNER, str(PLUGIN), variant],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("variant", ["switch-interval", "hash-seed"])
def test_only_the_asked_perturbation_reaches_a_real_run(tmp_path, variant):
    """Threads switch more often under that perturbation and as ever under another."""
    fast = variant == "switch-interval"
    done = _run(
        tmp_path,
        variant,
        f"import sys\ndef test_switch(): assert (sys.getswitchinterval() < 1e-4) is {fast}\n",
    )
    assert done.returncode == 0, done.stdout


def test_competing_processes_are_nobody_s_children_and_end_with_the_run(tmp_path):
    """Two busy processes run beside the tests, which do not see them as children, and then go."""
    done = _run(
        tmp_path,
        "competing-load",
        "import os, time, pytest\n"
        "def test_load():\n"
        "    with pytest.raises(ChildProcessError): os.waitpid(-1, os.WNOHANG)\n"
        "    print('run', os.getpid(), os.uname().nodename)\n"
        "    time.sleep(0.1)\n"
        "    print('busy', sum(_same(p) for p in os.listdir('/proc') if p.isdigit()))\n"
        "def _same(p):\n"
        "    try: mine = open('/proc/self/cmdline', 'rb').read(); "
        "return p != str(os.getpid()) and open(f'/proc/{p}/cmdline', 'rb').read() == mine\n"
        "    except OSError: return False\n",
    )
    assert done.returncode == 0, done.stdout
    assert "busy 2" in done.stdout
    time.sleep(0.3)
    marker = str(PLUGIN).encode()
    left = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if marker in words and b"competing-load" in words:
            left.append(entry.name)
    assert left == []


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
