"""mini-swe-agent as the scaffold: its loop, a model behind it, and our container under it.

The scaffold takes seconds to import and talks while it does, so it is imported when an agent first
works, told to be silent, and never finds or makes a configuration folder of the user's. Its own docker
environment is not used: it would leave commands running that it gave up waiting for.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from race.adapters.scaffold_models import GuardedModel, ScriptedModel, Stopped, tokens_of
from race.adapters.scaffold_shell import ContainerShell
from race.core.prompts import BAD_CALL, OBSERVATION, SYSTEM, TASK
from race.core.scripted import simulated_tokens
from race.ports import AgentLimits, AgentRun, Container

_IMPORT = threading.Lock()
_LIMITS = {
    "LimitsExceeded": "",
    "RepeatedFormatError": "the model did not call the tool three times in a row",
    "ContextWindowExceededError": "the model's context was full",
    "ContentPolicyViolationError": "the provider refused to go on",
}


def _quiet() -> None:
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    os.environ.setdefault("MSWEA_COST_TRACKING", "ignore_errors")
    os.environ.setdefault("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "4")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    for name in ("minisweagent", "agent", "litellm_model", "LiteLLM"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _scaffold() -> tuple[type[Any], Any]:
    """The scaffold's agent class and its exceptions."""
    with _IMPORT:
        _quiet()
        folder = tempfile.mkdtemp(prefix="race-agent-")
        given = os.environ.get("MSWEA_GLOBAL_CONFIG_DIR")
        os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = folder
        try:
            from minisweagent import exceptions
            from minisweagent.agents.default import DefaultAgent
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.environ.pop("MSWEA_GLOBAL_CONFIG_DIR")
            if given is not None:
                os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = given
        return DefaultAgent, exceptions


def _litellm(model: str) -> Any:
    with _IMPORT:
        from minisweagent.models import litellm_model

        litellm_model.litellm.suppress_debug_info = True
        litellm_model.litellm.telemetry = False
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm_model.LitellmModel(
        model_name=model,
        model_kwargs={"reasoning_effort": "medium", "drop_params": True, "timeout": 600},
        observation_template=OBSERVATION,
        format_error_template=BAD_CALL,
    )


class MiniAgent:
    """One agent; `solve` may be called from several threads at once."""

    def __init__(self, model: str, script: Sequence[str] | None = None) -> None:
        self._model, self._script = model, script

    def solve(self, container: Container, statement: str, limits: AgentLimits) -> AgentRun:
        """See the port."""
        agent_class, exceptions = _scaffold()
        inner = ScriptedModel(self._script) if self._script is not None else _litellm(self._model)
        agent = agent_class(
            GuardedModel(inner, self._model, exceptions.InterruptAgentFlow),
            ContainerShell(container, limits, exceptions.Submitted),
            system_template=SYSTEM,
            instance_template=TASK,
            step_limit=limits.steps,
            cost_limit=0,
            wall_time_limit_seconds=max(1, int(limits.run_seconds)),
            max_consecutive_format_errors=3,
        )
        try:
            status = str(agent.run(statement).get("exit_status", ""))
        except Stopped as stop:
            status = stop.status
        return self._told(agent, status, statement)

    def _told(self, agent: Any, status: str, statement: str) -> AgentRun:
        trajectory = agent.save(None)
        if self._script is not None:
            uncached, cached, written = simulated_tokens(statement, self._script[: agent.n_calls])
            counted: tuple[int, int | None, int] = (uncached, cached, written)
        else:
            counted = tokens_of(agent.messages)
        ended = "timeout" if status == "TimeExceeded" else "step_limit"
        return AgentRun(
            ended="submitted" if status == "Submitted" else ended,
            note=_LIMITS.get(status, ""),
            steps=agent.n_calls,
            input_tokens=counted[0],
            cached_input_tokens=counted[1],
            output_tokens=counted[2],
            cost_usd=agent.cost if agent.cost > 0 else None,
            trajectory=json.dumps(trajectory, indent=1, default=str).encode() + b"\n",
        )
