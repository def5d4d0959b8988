"""The model adapter against a real chat-completions server on this machine.

Each case runs in a fresh process, once for all: litellm's import takes seconds and leaves an event
loop behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from race.core.specified import Specified
from race.store import TaskFolder

pytestmark = pytest.mark.slow

CALLER = """
import json, os, sys
from race.adapters.litellm_model import LitellmModel
from race.errors import RaceError
for line in sys.stdin:
    case = json.loads(line)
    os.environ["OPENAI_API_BASE"] = case["base"]
    os.environ["OPENAI_API_KEY"] = "key-for-nobody"
    if "key" in case:
        del os.environ["OPENAI_API_KEY"]
    naps = []
    model = LitellmModel(case.get("model", "openai/scripted"), timeout=1.0, sleep=naps.append)
    question = [{"role": "user", "content": "four words of question"}]
    try:
        reply = model.ask(question, max_tokens=77)
        answer = {"text": reply.text, "input": reply.input_tokens, "cached": reply.cached_input_tokens,
                  "output": reply.output_tokens, "cost": reply.cost_usd, "cut_off": reply.cut_off}
    except RaceError as error:
        answer = {"error": type(error).__name__, "message": str(error), "exit": error.exit_code}
    print(json.dumps(answer | {"naps": naps}), flush=True)
"""


@pytest.fixture(scope="module")
def answers(chat: ModuleType) -> dict[str, dict[str, Any]]:
    """Every case's outcome, asked over one process; `asked` is what the server saw."""
    step = chat.Step
    scripts: dict[str, list[Any]] = {
        "plain": ["hello"],
        "cached": [step("hello", cached=3)],
        "cut-off": [chat.cut_off("half a")],
        "refusing": [chat.refusing()],
        "malformed": [chat.malformed()],
        "no-choices": [step(raw=b'{"choices": []}')],
        "late": [chat.late(5)],
        "rate-limited-once": [chat.rate_limited(7), "after"],
        "rate-limited-for-good": [chat.rate_limited()],
        "rate-limited-for-long": [chat.rate_limited(4000)],
        "no-key": [step("bad key", status=401)],
        "unknown-model": [step("no such model", status=404)],
        "bad-request": [step("no", status=400)],
        "overloaded": [step("oh", status=500), step("oh", status=503), "at last"],
        "hung-up": [step(drop=True), "again"],
    }
    servers = {name: chat.ChatServer(script) for name, script in scripts.items()}
    lines = []
    for name, server in servers.items():
        server.__enter__()
        lines.append(json.dumps({"name": name, "base": server.base}))
    lines.append(json.dumps({"name": "nobody-there", "base": "http://127.0.0.1:9/v1"}))
    lines.append(json.dumps({"name": "key-not-set", "base": "http://127.0.0.1:9/v1", "key": None}))
    lines.append(json.dumps({"name": "no-provider", "base": "", "model": "nonsense"}))
    done = subprocess.run(
        [sys.executable, "-c", CALLER],
        input="\n".join(lines),
        env={**os.environ, "OPENAI_API_KEY": "key-for-nobody"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    for server in servers.values():
        server.__exit__(None, None, None)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = {}
    for line, answer in zip(lines, done.stdout.splitlines(), strict=True):
        name = json.loads(line)["name"]
        server = servers.get(name)
        found[name] = json.loads(answer) | {"asked": server.asked if server else []}
    return found


def test_an_answer_with_its_tokens(answers: dict[str, dict[str, Any]]) -> None:
    """Text and tokens come through, cached ones apart; the question is sent as it is."""
    plain = answers["plain"]
    assert plain["text"] == "hello"
    assert (plain["input"], plain["cached"], plain["output"], plain["cut_off"]) == (5, 0, 1, False)
    assert plain["cost"] is None
    assert plain["asked"][0]["messages"] == [{"role": "user", "content": "four words of question"}]
    assert plain["asked"][0]["max_tokens"] == 77
    assert (answers["cached"]["input"], answers["cached"]["cached"]) == (2, 3)
    assert answers["cut-off"]["cut_off"]
    assert answers["refusing"]["text"].startswith("I'm sorry")


@pytest.mark.parametrize("name", ["malformed", "no-choices", "late", "nobody-there"])
def test_no_usable_answer_is_an_accident(name: str, answers: dict[str, dict[str, Any]]) -> None:
    """After four attempts with growing pauses: exit 4, the model named."""
    answer = answers[name]
    assert (answer["error"], answer["exit"]) == ("Unreachable", 4)
    assert "openai/scripted" in answer["message"]
    assert answer["naps"] == [1.0, 2.0, 4.0]


def test_rate_limits_are_waited_for(answers: dict[str, dict[str, Any]]) -> None:
    """As long as the server says; without a word, longer each time; not for an hour."""
    assert answers["rate-limited-once"]["text"] == "after"
    assert answers["rate-limited-once"]["naps"] == [7.0]
    assert answers["rate-limited-for-good"]["error"] == "RateLimited"
    assert answers["rate-limited-for-good"]["naps"] == [1.0, 2.0, 4.0]
    assert answers["rate-limited-for-long"]["error"] == "RateLimited"
    assert answers["rate-limited-for-long"]["naps"] == []


def test_overload_and_lost_connections_are_tried_again(answers: dict[str, dict[str, Any]]) -> None:
    """A server error or a dropped connection costs a pause, not the task."""
    assert answers["overloaded"]["text"] == "at last"
    assert answers["hung-up"]["text"] == "again"


@pytest.mark.parametrize(
    "name", ["no-key", "key-not-set", "unknown-model", "bad-request", "no-provider"]
)
def test_what_the_user_must_set_right(name: str, answers: dict[str, dict[str, Any]]) -> None:
    """A refused key or an unknown model is exit 3 at once."""
    assert (answers[name]["error"], answers[name]["exit"]) == ("Missing", 3)
    assert answers[name]["naps"] == []


def test_the_whole_command_with_a_served_model(
    chat: ModuleType, task_of: Callable[..., TaskFolder]
) -> None:
    """`race specify` asks a served writer and a served auditor; a second run has nothing to do."""
    task = task_of("harbour", '[specify]\nmodel = "openai/writer"\nauditor_model = "openai/judge"\n')
    good = (Path(__file__).parent / "battery" / "good" / "harbour-plain.md").read_text()
    said = "A task that waits while the pool is closed must get a PoolClosed error promptly."
    rows = [{"test": at, "covered": True, "sentence": said} for at in (1, 2, 3)]

    def answer(body: dict[str, Any]) -> str:
        return good if body["model"] == "writer" else json.dumps(rows)

    command = [sys.executable, "-m", "race", "specify", str(task.path.parent), "--json"]
    with chat.ChatServer([chat.rate_limited(0), answer]) as server:
        environment = {**os.environ, "OPENAI_API_BASE": server.base, "OPENAI_API_KEY": "key-for-nobody"}
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
            for _ in range(2)
        ]
    assert [json.loads(run.stdout)["done"] for run in runs] == [[task.id], []]
    record = task.read(Specified)
    assert record is not None
    assert (record.writer, record.auditor) == ("openai/writer", "rules+openai/judge")
    assert [call.role for call in record.calls] == ["writer", "auditor"]
    assert (task.path / "statement.md").read_text() == good
    assert [body["model"] for body in server.asked] == ["writer", "writer", "judge"]
