"""Takes what an agent did to the repository as a patch.

The agent had the run of its container: its git, its index, hooks and configuration may be anything.
So only the files are taken out, and compared with the base in a second container of the same image,
by a git that the agent never touched. Git metadata inside the tree is left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from race.errors import Malformed
from race.ports import Container, ContainerSpec, Engine

TREE_LIMIT = 512 * 2**20
PATCH_LIMIT = 16 * 2**20
_SECONDS = 300.0
_NO_TRACE = b"__pycache__/\n*.pyc\n.pytest_cache/\n.hypothesis/\n.mypy_cache/\n.ruff_cache/\n.coverage\n"
_TAKE = f"set -o pipefail; tar -C /repo --exclude=.git -cf - . 2>/dev/null | head -c {TREE_LIMIT + 1}"
_CLEAR = "find /repo -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +"
_DIFF = (
    "chmod -R u+rwX /repo; cd /repo && "
    "git='git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.excludesFile=/tmp/no-trace"
    " -c core.autocrlf=false -c core.symlinks=true -c advice.addEmbeddedRepo=false' && "
    "$git add -A -- . && "
    "$git diff --cached --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color HEAD"
    " > /tmp/submission.patch"
)


@dataclass(frozen=True)
class Submission:
    """The patch, and a note when there was something that kept it from being taken as it is."""

    patch: bytes
    note: str = ""


def take_submission(engine: Engine, container: Container, spec: ContainerSpec) -> Submission:
    """The difference between the tree in an agent's container and the base in its image.

    A tree that cannot be taken (unreadable, too large, endless) gives an empty patch and a note:
    it is the agent's work as it stands. Raises EngineDown.
    """
    chunks: list[bytes] = []
    done = container.run(
        ["bash", "-c", _TAKE], timeout=_SECONDS, workdir="/", output_limit=0, on_output=_keep(chunks)
    )
    tree = b"".join(chunks)
    if len(tree) > TREE_LIMIT:
        return Submission(b"", f"the tree holds more than {TREE_LIMIT // 2**20} MiB")
    if done.timed_out:
        return Submission(b"", "the tree could not be read in time")
    if not tree.startswith(b"./"):
        return Submission(b"", "the repository is gone")
    with engine.container(spec) as fresh:
        fresh.run(["bash", "-c", _CLEAR], timeout=_SECONDS, workdir="/")
        fresh.put("/tmp", {"no-trace": _NO_TRACE})
        fresh.put_tar("/repo", tree)
        compared = fresh.run(["bash", "-c", _DIFF], timeout=_SECONDS, workdir="/")
        if compared.exit_code != 0:
            said = compared.output.decode(errors="replace").strip().splitlines()[-1:]
            return Submission(b"", "the tree could not be compared: " + " ".join(said)[:200])
        try:
            patch = fresh.get("/tmp/submission.patch", limit=PATCH_LIMIT)
        except Malformed:
            return Submission(b"", f"the patch is larger than {PATCH_LIMIT // 2**20} MiB")
    return Submission(patch or b"")


def _keep(chunks: list[bytes]) -> Callable[[bytes], None]:
    size = 0

    def on_output(chunk: bytes) -> None:
        nonlocal size
        if size <= TREE_LIMIT:
            chunks.append(chunk)
            size += len(chunk)

    return on_output
