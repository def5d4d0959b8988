"""The scaffold in our hands: its loop, its limits, and what a model's troubles become."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from race.adapters.mini_agent import MiniAgent
from race.errors import Accident, Missing, RateLimited, Unreachable
from race.ports import AgentLimits, AgentRun

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def solve(container: Any, script: list[str], **limits: Any) -> AgentRun:
    return MiniAgent("", script).solve(container, "Mend it.", AgentLimits(**limits))


def outputs(run: AgentRun) -> list[dict[str, Any]]:
    """What the agent saw of each command."""
    messages = json.loads(run.trajectory)["messages"]
    return [message["extra"] for message in messages if "raw_output" in (message.get("extra") or {})]


def test_commands_run_in_the_repository(local_container: Any) -> None:
    """A script's commands run in /repo, one shell each, until it submits."""
    run = solve(local_container, ["echo hello > note.txt; cd /", "cat note.txt", SUBMIT])
    assert (run.ended, run.steps, run.note) == ("submitted", 3, "")
    assert [seen["raw_output"] for seen in outputs(run)] == ["", "hello\n"]
    assert (local_container.root / "repo" / "note.txt").read_text() == "hello\n"


def test_the_step_limit_ends_it(local_container: Any) -> None:
    """At the limit the work is left as it stands."""
    run = solve(local_container, ["echo 1 >> n", "echo 2 >> n", "echo 3 >> n", SUBMIT], steps=2)
    assert (run.ended, run.steps) == ("step_limit", 2)
    assert (local_container.root / "repo" / "n").read_text() == "1\n2\n"


def test_a_command_is_cut_at_its_limit(local_container: Any) -> None:
    """A command that takes too long is killed and the agent is told; it goes on."""
    run = solve(local_container, ["sleep 30", "echo on", SUBMIT], command_seconds=1)
    assert outputs(run)[0]["returncode"] == -1
    assert "killed after 1 seconds" in outputs(run)[0]["exception_info"]
    assert outputs(run)[1]["raw_output"] == "on\n"


def test_time_in_all_ends_it(local_container: Any) -> None:
    """When the time for the whole attempt is over, so is the attempt."""
    run = solve(local_container, ["sleep 30", "sleep 30", SUBMIT], run_seconds=1)
    assert (run.ended, run.steps) == ("timeout", 1)


def test_odd_commands_harm_nothing(local_container: Any) -> None:
    """NUL, a command longer than an argument may be, and bytes that are no text are all survived."""
    script = [
        "echo a\0b",
        "true " + "x" * 200_000 + "; echo long",
        "printf '\\xff\\xfe'",
        "exit 3",
        SUBMIT,
    ]
    run = solve(local_container, script)
    assert [seen["returncode"] for seen in outputs(run)] == [2, 0, 0, 3]
    assert outputs(run)[1]["raw_output"] == "long\n"
    assert run.ended == "submitted"


def test_a_printed_sentinel_is_a_submission_only_when_it_succeeds(local_container: Any) -> None:
    """The sentinel submits as the first line of a command that ends well, and only then."""
    script = [f"{SUBMIT}; exit 1", f"echo first; {SUBMIT}", SUBMIT, "echo never"]
    run = solve(local_container, script)
    assert run.steps == 3


def test_a_script_that_ends_without_submitting_is_at_its_limit(local_container: Any) -> None:
    """A script may run out; what it did counts as it stands."""
    assert solve(local_container, ["true"]).ended == "step_limit"


def test_importing_the_scaffold_prints_and_leaves_nothing(tmp_path: Any) -> None:
    """The scaffold comes up silently and makes no configuration folder of the user's."""
    code = (
        "from race.adapters import mini_agent; mini_agent._scaffold();"
        "import sys; print('litellm' in sys.modules)"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MSWEA")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert list(tmp_path.iterdir()) == []


def call(command: str) -> list[dict[str, Any]]:
    arguments = json.dumps({"command": command})
    return [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": arguments}}]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, chat_server: ModuleType) -> Any:
    """Starts a chat server with a script; the agent's model talks to it."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-user")
    monkeypatch.setenv("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")

    def start(*steps: Any) -> Any:
        server = chat_server.ChatServer(list(steps))
        monkeypatch.setenv("OPENAI_API_BASE", server.base)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base)
        return server

    return start


@pytest.mark.slow
def test_a_model_works_through_its_tool(
    local_container: Any, model: Any, chat_server: ModuleType
) -> None:
    """A real model's calls run, its tokens are counted, cached ones apart, and no key is written."""
    step = chat_server.Step
    steps = [
        step(tool_calls=call("echo hello > note.txt"), cached=5),
        step("I think so"),
        step(tool_calls=call(SUBMIT)),
    ]
    with model(*steps) as server:
        run = MiniAgent("openai/test").solve(local_container, "Mend {{it}}.", AgentLimits())
    assert (run.ended, run.steps) == ("submitted", 3)
    assert (local_container.root / "repo" / "note.txt").read_text() == "hello\n"
    asked = server.asked
    assert "Mend {{it}}." in json.dumps(asked[0]["messages"])
    assert "no usable call" in json.dumps(asked[2]["messages"])
    usages = [
        message["extra"]["response"]["usage"]
        for message in json.loads(run.trajectory)["messages"]
        if isinstance((message.get("extra") or {}).get("response"), dict)
    ]
    assert len(usages) == 3
    assert run.output_tokens == sum(usage["completion_tokens"] for usage in usages)
    prompt = sum(usage["prompt_tokens"] for usage in usages)
    assert run.cached_input_tokens == 5
    assert run.input_tokens == prompt - 5
    assert run.cost_usd is None
    assert b"key-of-the-user" not in run.trajectory


@pytest.mark.slow
def test_a_model_that_never_calls_is_at_a_limit(local_container: Any, model: Any) -> None:
    """Three answers in a row without a call end the attempt; it is graded as it stands."""
    with model("no", "no", "no", "no"):
        run = MiniAgent("openai/test").solve(local_container, "Mend it.", AgentLimits())
    assert (run.ended, run.steps) == ("step_limit", 3)
    assert "did not call the tool" in run.note


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (429, "slow down", RateLimited),
        (500, "oops", Unreachable),
        (503, "away", Unreachable),
        (401, "who are you", Missing),
        (404, "no such model", Missing),
    ],
)
def test_a_providers_error_is_one_of_ours(
    local_container: Any,
    model: Any,
    chat_server: ModuleType,
    status: int,
    text: str,
    kind: type[Exception],
) -> None:
    """What a provider answers instead of an answer is an accident, or something the user must set."""
    with model(chat_server.Step(text, status=status)), pytest.raises(kind, match="openai/test"):
        MiniAgent("openai/test").solve(local_container, "Mend it.", AgentLimits())


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["malformed", "drop"])
def test_nonsense_from_a_provider_is_an_accident(
    local_container: Any, model: Any, chat_server: ModuleType, fault: str
) -> None:
    """An answer that is no JSON, or a connection that is cut, is an accident, never a verdict."""
    step = chat_server.malformed() if fault == "malformed" else chat_server.Step(drop=True)
    with model(step), pytest.raises(Accident, match="does not answer"):
        MiniAgent("openai/test").solve(local_container, "Mend it.", AgentLimits())


@pytest.mark.slow
def test_nobody_there_is_an_accident(local_container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that cannot be reached at all is an accident."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    with pytest.raises(Unreachable, match="openai/test does not answer"):
        MiniAgent("openai/test").solve(local_container, "Mend it.", AgentLimits())


@pytest.mark.slow
def test_a_model_nobody_knows_is_the_users_to_name(local_container: Any) -> None:
    """A name that litellm cannot place says how to name a model."""
    with pytest.raises(Missing, match="name it as litellm does"):
        MiniAgent("nosuchmodel").solve(local_container, "Mend it.", AgentLimits())
