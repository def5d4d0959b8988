"""A real HTTP server with the chat-completions interface that answers from a script.

Each step of the script is one answer: a text, or a `Step` with a fault. After the last step the last
one is repeated. `asked` holds the request bodies that came in.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass
class Step:
    """One answer. `text` may be a function of the request body."""

    text: str | Callable[[dict[str, Any]], str] = ""
    status: int = 200
    delay: float = 0.0
    finish: str = "stop"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    drop: bool = False
    cached: int = 0
    tool_calls: list[dict[str, Any]] | None = None


def late(seconds: float, text: str = "late") -> Step:
    """An answer that keeps the caller waiting."""
    return Step(text, delay=seconds)


def malformed() -> Step:
    """Not JSON at all."""
    return Step(raw=b'{"id": "x", "choices": [')


def cut_off(text: str) -> Step:
    """A text that ends at the token limit."""
    return Step(text, finish="length")


def refusing() -> Step:
    """A polite no."""
    return Step("I'm sorry, but I can't help with that.")


def rate_limited(retry_after: float | None = None) -> Step:
    """Status 429."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Step("slow down", status=429, headers=headers)


class ChatServer:
    """Runs while its block runs; `base` is what OPENAI_API_BASE should be."""

    def __init__(self, script: Sequence[Step | str | Callable[[dict[str, Any]], str]]) -> None:
        self.script = [item if isinstance(item, Step) else Step(item) for item in script]
        self.asked: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                body = json.loads(self.rfile.read(length) or b"{}")
                server._answer(self, body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def base(self) -> str:
        """The address of the interface."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self._lock:
            step = self.script[min(len(self.asked), len(self.script) - 1)]
            self.asked.append(body)
        if step.delay:
            self._closing.wait(step.delay)
        if step.drop:
            handler.connection.close()
            return
        text = step.text(body) if callable(step.text) else step.text
        data = step.raw if step.raw is not None else json.dumps(self._body(step, text, body)).encode()
        try:
            handler.send_response(step.status)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(data)))
            for name, value in step.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def _body(self, step: Step, text: str, body: dict[str, Any]) -> dict[str, Any]:
        if step.status != 200:
            return {"error": {"message": text, "type": "error", "code": step.status}}
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if step.tool_calls is not None:
            message["tool_calls"] = step.tool_calls
        asked = sum(len(str(item.get("content", ""))) for item in body.get("messages", [])) // 4
        given = max(len(text) // 4, 1)
        return {
            "id": f"chat-{len(self.asked)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", "scripted"),
            "choices": [{"index": 0, "message": message, "finish_reason": step.finish}],
            "usage": {
                "prompt_tokens": asked,
                "completion_tokens": given,
                "total_tokens": asked + given,
                "prompt_tokens_details": {"cached_tokens": step.cached},
            },
        }
