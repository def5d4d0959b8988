"""Hands a command its tools, each made when it is first asked for.

The only module that names an adapter, and the only place where an import waits: an adapter's SDK
takes tenths of a second to import, which `race --help` must not pay for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from race.core.mining.facts import PullRequestFacts
from race.ports import Agent, Engine, History, Host, Model, Resolver, RootFileSystems
from race.settings import Workspace


@dataclass
class Workbench:
    """The tools of one command. Tests hand in their own subclass or set the attributes."""

    workspace: Workspace

    @cached_property
    def engine(self) -> Engine:
        """The container engine; not yet asked whether it answers."""
        from race.adapters.docker_engine import DockerEngine

        return DockerEngine(self.workspace.docker_host)

    @cached_property
    def rootfs(self) -> RootFileSystems:
        """Debian's packages as root file systems."""
        from race.adapters.debian_rootfs import DebianRootfs

        return DebianRootfs()

    @cached_property
    def host(self) -> Host:
        """This machine, for `race doctor --fix`."""
        from race.adapters.host_setup import DebianHost

        return DebianHost()

    @cached_property
    def resolver(self) -> Resolver:
        """uv, with this machine's index and certificates."""
        from race.adapters.uv_resolver import UvResolver

        return UvResolver(
            index_url=self.workspace.index_url,
            ca_bundle=self.workspace.ca_bundle,
            cache=self.workspace.cache_dir / "uv",
        )

    def clone(
        self, path: Path, repo: str, facts: Mapping[int, PullRequestFacts] | None = None
    ) -> History:
        """A local clone as a project's history, with what it does not say itself."""
        from race.adapters.git_history import GitHistory

        return GitHistory(path, repo, facts=facts)

    def github(
        self,
        repo: str,
        api_url: str = "",
        say: Callable[[str], None] = lambda line: None,
        searches: Sequence[str] = (),
    ) -> History:
        """A project behind GitHub's API; the token is GITHUB_TOKEN when it is set.

        With `searches`, its pull requests are what these queries find, not all of them.
        """
        from race.adapters.git_scratch import ScratchRepository
        from race.adapters.github_client import GithubClient
        from race.adapters.github_history import GithubHistory

        client = GithubClient(
            api_url=api_url,
            token=os.environ.get("GITHUB_TOKEN", ""),
            cache=self.workspace.cache_dir / "github",
            say=say,
        )
        return GithubHistory(repo, client, ScratchRepository(), searches)

    def agent(self, model: str, script: Sequence[str] | None = None) -> Agent:
        """mini-swe-agent with a model by its litellm name, or with the commands of a script."""
        from race.adapters.mini_agent import MiniAgent

        return MiniAgent(model, script)

    def model(self, name: str) -> Model:
        """A model by its litellm name."""
        from race.adapters.litellm_model import LitellmModel

        return LitellmModel(name)

    def parquet_rows(self, path: Path) -> Iterator[list[dict[str, Any]]]:
        """Batches of rows of a Parquet file."""
        from race.adapters.parquet_rows import parquet_rows

        return parquet_rows(path)
