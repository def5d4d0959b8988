"""GitHub's REST API through PyGithub: pages, conditional requests, limits, and a cache to resume from.

Every answer is kept on disk with its ETag. What can never change (a commit, a tree or a blob by its
hash) is asked for once; everything else is asked for conditionally, and an unchanged answer costs
nothing of the rate limit. A run that was stopped therefore goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import requests
from github import Auth, Github, GithubException

from race.errors import Malformed, Missing, RateLimited, Unreachable, UsageError

DEFAULT_URL = "https://api.github.com"
PAGE = 100
_TRIES = 5
_NEXT = re.compile(r'<[^>]*>;\s*rel="next"')
_VERSION = 1
_AT_HAND = 400


class GithubClient:
    """Asks one server. `wait_at_most` is the longest pause, in seconds, that a limit may cost.

    A longer one raises RateLimited with what the server said; running again goes on from the cache.
    """

    def __init__(
        self,
        *,
        api_url: str = "",
        token: str = "",
        cache: Path | None = None,
        wait_at_most: float = 3700.0,
        sleep: Callable[[float], None] = time.sleep,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.url = (api_url or DEFAULT_URL).rstrip("/")
        if not re.match(r"^https?://[^/]+", self.url):
            raise UsageError(f"--api-url {api_url!r} is no address of a server")
        self._github = Github(
            auth=Auth.Token(token) if token else None,
            base_url=self.url,
            per_page=PAGE,
            retry=None,
            timeout=30,
            seconds_between_requests=None,
            user_agent="race",
        )
        self._cache = cache / hashlib.sha256(self.url.encode()).hexdigest()[:12] if cache else None
        self._wait_at_most, self._sleep, self.say = wait_at_most, sleep, say
        self._has_token = bool(token)
        self._fixed: OrderedDict[str, tuple[Any, bool]] = OrderedDict()
        self.asked = 0
        """Requests sent, conditional ones included."""

    def get(self, path: str, *, for_ever: bool = False, **parameters: Any) -> Any:
        """One answer. `for_ever` says that it cannot change, so that a kept one is as good."""
        return self._ask(path, parameters, for_ever)[0]

    def pages(
        self, path: str, *, for_ever: bool = False, keep_seconds: float = 0.0, **parameters: Any
    ) -> Iterator[Any]:
        """Every page of a listing, as the server sends them, until it names no next one.

        An answer that was kept less than `keep_seconds` ago is taken without asking.
        """
        page = 1
        while True:
            asked = parameters | {"per_page": PAGE, "page": page}
            body, more = self._ask(path, asked, for_ever, keep_seconds)
            yield body
            if not more:
                return
            page += 1

    # -- one request -----------------------------------------------------------------------

    def _ask(
        self, path: str, parameters: dict[str, Any], for_ever: bool, keep_seconds: float = 0.0
    ) -> tuple[Any, bool]:
        name = f"{path}?{json.dumps(parameters, sort_keys=True)}"
        if name in self._fixed:
            return self._fixed[name]
        kept = self._kept(name)
        if kept is not None and for_ever:
            return self._remember(name, kept["body"], kept["more"])
        if kept is not None and time.time() - kept.get("at", 0.0) < keep_seconds:
            return kept["body"], kept["more"]
        headers = {"If-None-Match": kept["etag"]} if kept is not None and kept["etag"] else {}
        answered, body = self._patiently(path, parameters, headers)
        if kept is not None and str(answered.get("status", "")).startswith("304"):
            return kept["body"], kept["more"]
        if body is None and kept is not None:
            return kept["body"], kept["more"]
        if body is None:
            raise Unreachable(f"{self.url}{path}: an empty answer")
        more = bool(_NEXT.search(str(answered.get("link", ""))))
        fields = {"etag": answered.get("etag", ""), "more": more, "body": body, "at": time.time()}
        self._keep(name, fields)
        return self._remember(name, body, more) if for_ever else (body, more)

    def _remember(self, name: str, body: Any, more: bool) -> tuple[Any, bool]:
        """Keep what cannot change at hand: the last few hundred answers."""
        self._fixed[name] = (body, more)
        if len(self._fixed) > _AT_HAND:
            self._fixed.popitem(last=False)
        return body, more

    def _patiently(
        self, path: str, parameters: dict[str, Any], headers: dict[str, str]
    ) -> tuple[dict[str, Any], Any]:
        """A request, repeated after limits and after failures of the server."""
        failures = 0
        while True:
            self.asked += 1
            try:
                return self._github.requester.requestJsonAndCheck(
                    "GET", path, parameters=dict(parameters), headers=dict(headers)
                )
            except GithubException as error:
                pause = self._limit(error)
                if pause is not None:
                    self._pause(pause)
                    continue
                if error.status < 500:
                    raise self._refusal(error, path) from error
                failure: Exception = error
                said = f"status {error.status}"
            except (requests.exceptions.RequestException, OSError) as error:
                failure, said = error, f"no connection ({type(error).__name__})"
            except (ValueError, RuntimeError) as error:
                raise Unreachable(f"{self.url}{path}: not an answer of GitHub's API: {error}") from error
            failures += 1
            if failures == _TRIES:
                raise Unreachable(f"{self.url}{path}: {said}, {_TRIES} times") from failure
            self._sleep(min(60.0, 2.0**failures))

    def _limit(self, error: GithubException) -> float | None:
        """How long a limit asks us to wait; None when the refusal is not a limit."""
        headers = {str(key).lower(): str(value) for key, value in (error.headers or {}).items()}
        if error.status not in (403, 429):
            return None
        if headers.get("retry-after", "").isdigit():
            return float(headers["retry-after"])
        if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset"):
            return max(1.0, float(headers["x-ratelimit-reset"]) - time.time() + 1)
        message = str((error.data or {}).get("message", "")) if isinstance(error.data, dict) else ""
        if error.status == 429 or "rate limit" in message.lower():
            return 60.0
        return None

    def _pause(self, seconds: float) -> None:
        if seconds > self._wait_at_most:
            hint = "" if self._has_token else "; with GITHUB_TOKEN set the limit is higher"
            raise RateLimited(
                f"{self.url} asks to wait {seconds:.0f} s; run again then, it goes on from here{hint}",
                retry_after=seconds,
            )
        self.say(f"{self.url} asks to wait {seconds:.0f} s")
        self._sleep(seconds)

    def _refusal(self, error: GithubException, path: str) -> Exception:
        message = str((error.data or {}).get("message", "")) if isinstance(error.data, dict) else ""
        if error.status == 401:
            return Missing(f"{self.url} refuses the token; set GITHUB_TOKEN to one that works")
        if error.status == 404:
            hint = "" if self._has_token else " (a private project needs GITHUB_TOKEN)"
            return UsageError(f"{self.url}{path}: not found{hint}")
        if error.status == 403:
            return Missing(f"{self.url}{path}: refused: {message or 'no reason given'}")
        return Malformed(f"{self.url}{path}", f"status {error.status}", message or "refused")

    # -- what is kept ----------------------------------------------------------------------

    def _file(self, name: str) -> Path | None:
        if self._cache is None:
            return None
        key = hashlib.sha256(name.encode()).hexdigest()
        return self._cache / key[:2] / key[2:]

    def _kept(self, name: str) -> dict[str, Any] | None:
        file = self._file(name)
        if file is None:
            return None
        try:
            value = json.loads(zlib.decompress(file.read_bytes()))
        except (OSError, ValueError, zlib.error):
            return None
        good = isinstance(value, dict) and value.get("version") == _VERSION and value.get("name") == name
        return value if good else None

    def _keep(self, name: str, value: dict[str, Any]) -> None:
        """A cache that cannot be written costs requests, not the run."""
        file = self._file(name)
        if file is None:
            return
        data = zlib.compress(json.dumps(value | {"version": _VERSION, "name": name}).encode(), 1)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=file.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            Path(temporary).replace(file)
        except OSError as error:
            self.say(f"{file}: {error.strerror}")
