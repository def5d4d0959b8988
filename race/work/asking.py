"""What a question to a model cost, as records keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from race.core.records import ModelCall, ModelRole, canonical, sha256
from race.ports import ModelReply


def model_call(
    role: ModelRole,
    model: str,
    messages: Sequence[Mapping[str, str]],
    reply: ModelReply,
    *,
    max_tokens: int,
    problem: str = "",
) -> ModelCall:
    """One question and its answer: digests of both, tokens and cost."""
    return ModelCall(
        role=role,
        model=model,
        parameters={"max_tokens": max_tokens},
        prompt_sha256=sha256(canonical([dict(message) for message in messages])),
        reply_sha256=sha256(reply.text.encode()),
        input_tokens=reply.input_tokens,
        cached_input_tokens=reply.cached_input_tokens,
        output_tokens=reply.output_tokens,
        cost_usd=reply.cost_usd,
        problem=problem,
    )
