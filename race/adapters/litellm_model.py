"""A chat model behind any provider that litellm reaches.

Which key and address are used is litellm's business (`OPENAI_API_KEY`, `OPENAI_API_BASE` and so on).
Its import is slow and talkative, so it happens at the first question; nothing is sent anywhere but to
the model, and no price list is fetched.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from race.errors import Accident, Missing, RaceError, RateLimited, Unreachable
from race.ports import ModelReply

ATTEMPTS = 4
"""Questions asked in vain before it counts as an accident."""

LONGEST_PAUSE = 120.0


def load_litellm() -> Any:
    """litellm, imported without its price list download, prints and warnings."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = importlib.import_module("litellm")
    module.suppress_debug_info = True
    module.drop_params = True
    module.set_verbose = False
    module.callbacks = []
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return module


class LitellmModel:
    """Meets the Model port. `timeout` is seconds per question; `sleep` waits between attempts."""

    def __init__(
        self,
        name: str,
        *,
        timeout: float = 300.0,
        temperature: float | None = 0.0,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self._timeout, self._temperature = timeout, temperature
        self._attempts, self._sleep = attempts, sleep

    def ask(self, messages: Sequence[Mapping[str, str]], *, max_tokens: int = 4096) -> ModelReply:
        """One completion; rate limits, overload and broken connections are tried again.

        Raises Missing when a key or the model is refused, RateLimited or Unreachable after the last
        attempt; an answer that is no chat completion counts as none.
        """
        litellm = load_litellm()
        pause = 1.0
        for attempt in range(1, self._attempts + 1):
            try:
                return self._once(litellm, messages, max_tokens)
            except (RateLimited, Unreachable) as error:
                self._need_keys(litellm, error)
                if attempt == self._attempts:
                    raise
                wanted = error.retry_after if isinstance(error, RateLimited) else None
                if wanted is not None and wanted > LONGEST_PAUSE:
                    raise
                self._sleep(pause if wanted is None else wanted)
                pause *= 2
        raise Accident(f"{self.name}: no attempt was allowed")

    def _once(self, litellm: Any, messages: Sequence[Mapping[str, str]], max_tokens: int) -> ModelReply:
        options: dict[str, Any] = {"max_tokens": max_tokens, "timeout": self._timeout, "num_retries": 0}
        options["max_retries"] = 0
        if self._temperature is not None:
            options["temperature"] = self._temperature
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                answer = litellm.completion(
                    model=self.name, messages=[dict(message) for message in messages], **options
                )
        except _errors_of(litellm) as error:
            raise self._translated(litellm, error) from error
        return self._reply(answer)

    def _need_keys(self, litellm: Any, error: Unreachable) -> None:
        """A question without a key fails in many ways: say which variable is not set."""
        missing = litellm.validate_environment(self.name)["missing_keys"]
        keys = [name for name in missing if name.endswith("KEY")]
        if keys:
            raise Missing(f"model {self.name}: set {', '.join(keys)} and run again") from error

    def _translated(self, litellm: Any, error: Exception) -> RaceError:
        kinds = litellm.exceptions
        text = " ".join(str(error).split())[:300]
        if isinstance(error, kinds.RateLimitError):
            return RateLimited(
                f"model {self.name}: asks to come back later: {text}", _retry_after(error)
            )
        if isinstance(error, (kinds.AuthenticationError, kinds.PermissionDeniedError)):
            return Missing(
                f"model {self.name}: the key is missing or refused; set it and run again: {text}"
            )
        if isinstance(error, kinds.NotFoundError):
            return Missing(f"model {self.name}: the provider does not know it: {text}")
        if isinstance(error, kinds.ContextWindowExceededError):
            return Accident(f"model {self.name}: the question is too long for it: {text}")
        if isinstance(error, kinds.BadRequestError):
            return Missing(f"model {self.name}: refuses the question or its name is wrong: {text}")
        return Unreachable(f"model {self.name}: no answer: {text}")

    def _reply(self, answer: Any) -> ModelReply:
        try:
            choice = answer.choices[0]
            text, reason = choice.message.content, choice.finish_reason
            usage = answer.usage
            asked, given = int(usage.prompt_tokens), int(usage.completion_tokens)
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise Unreachable(f"model {self.name}: its answer is no completion: {error}") from error
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None) if details is not None else None
        uncached = asked - (cached or 0)
        return ModelReply(text or "", uncached, cached, given, _cost(answer), reason == "length")


def _errors_of(litellm: Any) -> tuple[type[Exception], ...]:
    """Everything that litellm raises on purpose; its classes have no base of their own."""
    kinds = vars(litellm.exceptions).values()
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception))


def _cost(answer: Any) -> float | None:
    """US dollars, or None when litellm has no price for the model."""
    cost = getattr(answer, "_hidden_params", {}).get("response_cost")
    return float(cost) if cost else None


def _retry_after(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    value = getattr(response, "headers", {}).get("retry-after") if response is not None else None
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None
