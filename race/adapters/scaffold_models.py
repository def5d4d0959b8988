"""Models as the scaffold calls them: one whose errors come out as ours, and one that is a script."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from race.errors import Missing, RaceError, RateLimited, Unreachable


class Stopped(Exception):
    """The model came to an end of its own that is neither a submission nor an accident."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class GuardedModel:
    """A model whose foreign errors come out as ours."""

    def __init__(self, inner: Any, name: str, flow: type[Exception]) -> None:
        self._inner, self._name, self._flow = inner, name, flow
        self.config = inner.config

    def query(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._inner.query(messages, **options)
        except (self._flow, Stopped, RaceError):
            raise
        except Exception as error:
            raise _translated(error, self._name) from error
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _translated(error: Exception, model: str) -> Exception:
    """A provider's error as one of ours; by class name, so that no second SDK is imported."""
    names = [kind.__name__ for kind in type(error).__mro__]
    said = " ".join(str(error).split())[:300]
    for name in names:
        if name in ("ContextWindowExceededError", "ContentPolicyViolationError"):
            return Stopped(name)
    if {"AuthenticationError", "PermissionDeniedError"} & set(names):
        return Missing(f"model {model}: no access; set its provider's key ({said})")
    if "NotFoundError" in names or "LLM Provider NOT provided" in said:
        return Missing(f"model {model} is not known; name it as litellm does ({said})")
    if "RateLimitError" in names:
        return RateLimited(f"model {model}: asked too often: {said}")
    return Unreachable(f"model {model} does not answer: {type(error).__name__}: {said}")


class ScriptedModel:
    """A model whose answers are a list of commands."""

    def __init__(self, script: Sequence[str]) -> None:
        self._left = list(script)
        self.config = SimpleNamespace(model_name="scripted")

    def query(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        if not self._left:
            raise Stopped("LimitsExceeded")
        command = self._left.pop(0)
        return {
            "role": "assistant",
            "content": "(scripted)",
            "extra": {"actions": [{"command": command}], "cost": 0.0, "timestamp": time.time()},
        }

    def format_message(self, **fields: Any) -> dict[str, Any]:
        return fields

    def format_observation_messages(
        self, message: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]], variables: object = None
    ) -> list[dict[str, Any]]:
        return [
            {
                "role": "user",
                "content": str(output.get("output", ""))[:12000],
                "extra": {
                    "raw_output": output.get("output", ""),
                    "returncode": output.get("returncode"),
                    "exception_info": output.get("exception_info"),
                },
            }
            for output in outputs
        ]

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        return {"model_name": "scripted"} | more

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"model": {"model_name": "scripted"}, "model_type": "scripted"}}}


def tokens_of(messages: Sequence[Mapping[str, Any]]) -> tuple[int, int | None, int]:
    """Uncached, cached and written tokens of all calls; cached is None when no call told."""
    uncached, cached, written, told = 0, 0, 0, False
    for message in messages:
        response = (message.get("extra") or {}).get("response")
        usage = (response.get("usage") if isinstance(response, dict) else None) or {}
        details = usage.get("prompt_tokens_details") or {}
        hit = details.get("cached_tokens")
        told = told or hit is not None
        cached += hit or 0
        uncached += (usage.get("prompt_tokens") or 0) - (hit or 0)
        written += usage.get("completion_tokens") or 0
    return uncached, cached if told else None, written
