"""What a test does with the product: the events that the walk over its code records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from race.core.interface.symbols import Class, Function, Module

UseKind = Literal[
    "module", "name", "member", "loose", "call", "loose-call", "fixture", "text", "awaited", "unpacked",
    "outside", "raises", "claim", "result", "made",
]  # fmt: skip


@dataclass(frozen=True)
class Use:
    """One use. `owner` is what it is a use of; None when the walk could not tell.

    module: `import name`. name: `owner.name` of a module. member: `owner.name` of a class or object.
    loose: `.name` of something unknown. call: a call of `owner` with `positional` arguments and
    `keywords`. loose-call: the same for method `name` of something unknown. awaited: `owner`'s
    result is awaited. unpacked: `owner`'s result is taken apart into `positional` values. text: a
    string; `context` says what it is compared with (pattern, compare, plain). outside: a call of
    something that is not the product's. raises: an exception is expected, `context` its wording.
    claim: an assertion about `owner`'s member `name`, or about what function `owner` returned;
    `context` says what must hold, in words. result: what `owner` returns is looked at. made: an
    object of a class of the tests is made that inherits from the product's `owner`.
    """

    kind: UseKind
    name: str = ""
    owner: Module | Class | Function | None = None
    positional: int = 0
    keywords: tuple[str, ...] = ()
    starred: bool = False
    context: str = ""
    receiver: Class | None = None


RAISES = ("pytest.raises", "pytest.RaisesGroup", "pytest.RaisesExc", "self.assertRaises", "raises")
WARNS = ("pytest.warns", "pytest.deprecated_call", "warns")
RUNS_COROUTINE = (
    "run", "wait_for", "create_task", "ensure_future", "gather", "shield", "run_until_complete",
    "run_coroutine_threadsafe", "start_soon", "as_completed", "wait",
)  # fmt: skip
BUILTIN_FIXTURES = frozenset(
    {"request", "monkeypatch", "tmp_path", "tmpdir", "tmp_path_factory", "tmpdir_factory", "capsys",
     "capfd", "capsysbinary", "capfdbinary", "caplog", "recwarn", "pytestconfig", "cache",
     "record_property", "record_testsuite_property", "record_xml_attribute", "doctest_namespace",
     "testdir", "pytester", "event_loop", "mocker", "anyio_backend", "anyio_backend_name",
     "anyio_backend_options", "unused_tcp_port", "unused_tcp_port_factory", "benchmark", "loop",
     "event_loop_policy", "subtests", "class_mocker", "module_mocker", "session_mocker", "nursery",
     "autojump_clock", "mock_clock", "free_tcp_port", "free_tcp_port_factory", "free_udp_port",
     "free_udp_port_factory", "httpbin", "httpserver", "aiohttp_client",
     "aiohttp_server", "faker", "freezer", "time_machine", "snapshot", "worker_id", "testrun_uid",
     "httpbin_secure", "httpbin_both", "capteesys", "self", "unused_udp_port"}
)  # fmt: skip
