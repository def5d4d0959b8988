"""A server that speaks GitHub's API on 127.0.0.1, from a local clone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from git import Git

from race.adapters.git_history import GitHistory


@dataclass
class GithubServer:
    """Answers like GitHub's API from a local clone: pages, ETags, limits, failures.

    `limit` is how many requests an hour takes; a conditional request that finds nothing changed is
    free. `faults` are answers to give instead, first come first served: (status, headers, message).
    Searches have a limit of their own, a cap on results, and may be cut off: the first
    `search_cut_off` of them say that they are incomplete.
    """

    clone: Path
    repo: str
    limit: int = 100_000
    per_page: int = 7
    faults: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    connected: dict[int, int] = field(default_factory=dict)
    issues: dict[int, tuple[str, str]] = field(default_factory=dict)
    bodies: dict[int, str] = field(default_factory=dict)
    foreign: int = 0
    """A number in another project that every search finds as well."""
    search_limit: int = 30
    search_cap: int = 1000
    search_cut_off: int = 0
    search_remaining: int = 0
    search_reset: float = 0.0
    remaining: int = 0
    reset: float = 0.0
    served: list[tuple[int, str]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.history = GitHistory(self.clone, self.repo)
        self.requests = {r.number: r for r in self.history.pull_requests()}
        self.remaining = self.limit
        self.reset = time.time() + 3600
        self.search_remaining, self.search_reset = self.search_limit, time.time() + 60
        self._lock = threading.Lock()
        self._commits: dict[str, dict[str, Any]] = {}
        self._git = Git(str(self.clone))

    def start(self) -> None:
        """Answer on a free port until `stop`."""
        handler = type("Handler", (_Handler,), {"github": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Answer no more; end the processes that read the clone."""
        self._http.shutdown()
        self._http.server_close()
        self.history.close()
        self._git.clear_cache()

    def git(self, *arguments: str) -> bytes:
        return subprocess.run(
            ["git", "-C", str(self.clone), *arguments], capture_output=True, check=True
        ).stdout

    def answer(self, path: str, query: dict[str, str]) -> Any:
        """The body of an answer, or None when there is no such thing."""
        if path == "/search/issues":
            return self._search(query["q"])
        root = f"/repos/{self.repo}"
        if path == root:
            return {"full_name": self.repo, "default_branch": "main"}
        rest = path.removeprefix(root + "/").split("/")
        if rest == ["pulls"]:
            rows = [self._row(number) for number in self.requests]
            return sorted(rows, key=lambda row: (row["updated_at"], row["number"]), reverse=True)
        if rest[0] == "pulls":
            return self._row(int(rest[1])) | {"commits": 1}
        if rest[0] == "commits":
            return self._commit(rest[1])
        if rest[:2] == ["git", "trees"]:
            return self._tree(rest[2], "recursive" in query)
        if rest[:2] == ["git", "blobs"]:
            data = self._git.get_object_data(rest[2])[3]
            return {"sha": rest[2], "encoding": "base64", "content": base64.encodebytes(data).decode()}
        if rest[0] == "issues" and len(rest) == 2:
            title, body = self.issues.get(int(rest[1]), ("", ""))
            return {"number": int(rest[1]), "title": title, "body": body} if title else None
        if rest[0] == "issues" and rest[2] == "timeline":
            issue = self.connected.get(int(rest[1]))
            source = {"issue": {"number": issue, "repository": {"full_name": self.repo}}}
            return [{"event": "connected", "source": source}] if issue else [{"event": "labeled"}]
        return None

    def _row(self, number: int) -> dict[str, Any]:
        request = self.requests[number]
        return {
            "number": number,
            "title": request.title,
            "body": self.bodies.get(number, request.body).replace("\n", "\r\n"),
            "base": {"ref": "main"},
            "state": "closed",
            "merged_at": request.merged_at,
            "updated_at": request.merged_at,
            "merge_commit_sha": request.merge_commit,
        }

    def _search(self, query: str) -> dict[str, Any]:
        """Merged pull requests whose title (or text) has one of the words, in a window of days."""
        assert f"repo:{self.repo} is:pr is:merged " in query
        window = re.search(r"merged:(\S+)\.\.(\S+)", query)
        assert window is not None
        rest = re.sub(r"\b(repo|is|merged|in):\S+", " ", query)
        words = [word.strip(' "()').lower() for word in re.split(r"\bOR\b", rest)]
        rows = []
        for number, request in sorted(self.requests.items()):
            text = request.title if "in:title" in query else f"{request.title}\n{request.body}"
            inside = window[1] <= request.merged_at[:10] <= window[2]
            if inside and any(word in text.lower() for word in words):
                rows.append({"number": number, "repository_url": f"{self.url}/repos/{self.repo}"})
        if self.foreign:
            rows.append({"number": self.foreign, "repository_url": f"{self.url}/repos/other/project"})
        cut_off, self.search_cut_off = self.search_cut_off > 0, max(0, self.search_cut_off - 1)
        return {
            "total_count": len(rows),
            "incomplete_results": cut_off,
            "items": rows[: 1 if cut_off else self.search_cap],
        }

    def _commit(self, sha: str) -> dict[str, Any]:
        if sha not in self._commits:
            self._commits[sha] = self._read_commit(sha)
        return self._commits[sha]

    def _read_commit(self, sha: str) -> dict[str, Any]:
        fields = self.git("log", "-1", "--format=%T%x00%P%x00%aI%x00%cI%x00%B", sha).decode().split("\0")
        tree, parents, authored, committed, message = fields
        base = parents.split()[0] if parents else tree
        files = []
        raw = self.git("diff-tree", "-r", "-M", "--no-abbrev", "-z", base, sha).decode().split("\0")
        while raw and raw[0]:
            *_, new, status = raw.pop(0).split()
            name = raw.pop(0)
            words = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "T": "changed"}
            file = {"filename": name, "status": words[status[0]], "sha": new}
            if status[0] == "R":
                file |= {"previous_filename": name, "filename": raw.pop(0)}
            files.append(file)
        return {
            "sha": sha,
            "parents": [{"sha": parent} for parent in parents.split()],
            "commit": {
                "message": message.strip(),
                "tree": {"sha": tree},
                "author": {"date": authored},
                "committer": {"date": committed},
            },
            "files": files,
        }

    def _tree(self, sha: str, recursive: bool) -> dict[str, Any]:
        flags = ["-r", "-t"] if recursive else []
        entries = []
        for line in self.git("ls-tree", "-z", *flags, sha).decode().split("\0")[:-1]:
            head, _, path = line.partition("\t")
            mode, kind, blob = head.split()
            entries.append({"path": path, "mode": mode, "type": kind, "sha": blob})
        return {"sha": sha, "tree": entries, "truncated": False}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Head and body are two writes: without this each answer waits 40 ms for the client's receipt."""
    github: GithubServer

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self.github._lock:
            status, headers, body = self._respond(parts.path, query)
            self.github.served.append((status, self.path))
        data = b"" if status == 304 else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _respond(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        server = self.github
        if server.faults:
            status, headers, message = server.faults.pop(0)
            return status, headers, {"message": message}
        if time.time() >= server.reset:
            server.remaining, server.reset = server.limit, time.time() + 3600
        if path == "/search/issues" and (refused := self._search_refused()):
            return refused
        body = server.answer(path, query)
        headers = self._limits()
        if body is None:
            return 404, headers, {"message": "Not Found"}
        if isinstance(body, dict) and "items" in body:
            size = min(int(query.get("per_page", 30)), server.per_page)
            page = int(query.get("page", 1))
            if len(body["items"]) > page * size:
                headers["Link"] = f'<{server.url}{path}?page={page + 1}>; rel="next"'
            body["items"] = body["items"][(page - 1) * size : page * size]
        if isinstance(body, list):
            size = min(int(query.get("per_page", 30)), server.per_page)
            page = int(query.get("page", 1))
            if len(body) > page * size:
                headers["Link"] = f'<{server.url}{path}?page={page + 1}>; rel="next"'
            body = body[(page - 1) * size : page * size]
        tag = '"' + hashlib.sha256(json.dumps(body).encode()).hexdigest() + '"'
        headers["ETag"] = tag
        if self.headers.get("If-None-Match") == tag:
            return 304, headers, None
        if server.remaining <= 0:
            return 403, self._limits(), {"message": "API rate limit exceeded for you"}
        server.remaining -= 1
        return 200, headers | self._limits(), body

    def _search_refused(self) -> tuple[int, dict[str, str], Any] | None:
        """Searches have thirty requests a minute, apart from the hour's."""
        server = self.github
        if time.time() >= server.search_reset:
            server.search_remaining, server.search_reset = server.search_limit, time.time() + 60
        if server.search_remaining <= 0:
            headers = {
                "X-RateLimit-Resource": "search",
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": str(int(server.search_reset)),
            }
            return 403, headers, {"message": "API rate limit exceeded for you"}
        server.search_remaining -= 1
        return None

    def _limits(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.github.limit),
            "X-RateLimit-Remaining": str(self.github.remaining),
            "X-RateLimit-Reset": str(int(self.github.reset)),
        }
