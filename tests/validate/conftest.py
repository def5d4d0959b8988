"""A project with one switch, in images of three pytest versions: gate.FIXED is what the fix turns on."""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from race.core.records import digest
from race.ports import Limits
from race.work.base_images import ensure_base
from race.work.cells import Subject
from race.workbench import Workbench

PYTESTS = {"7": "pytest==7.4.4", "8": "pytest==8.4.2", "9": "pytest==9.0.1"}
GATE = "FIXED = False\n"
FIX = """\
diff --git a/gate.py b/gate.py
--- a/gate.py
+++ b/gate.py
@@ -1 +1 @@
-FIXED = False
+FIXED = True
"""
DOCKERFILE = """\
FROM {base}
RUN python3 -m venv --without-pip /opt/venv
COPY site/ /opt/venv/lib/python3.11/site-packages/
RUN echo /repo > /opt/venv/lib/python3.11/site-packages/gate.pth
COPY repo/ /repo/
RUN cd /repo && git init -q . && git add -A && \
    git -c user.name=Sample -c user.email=sample@example.invalid commit -qm base && \
    chown -R agent:agent /repo
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin
USER agent
WORKDIR /repo
STOPSIGNAL SIGKILL
"""


def build_gate_image(bench: Workbench, folder: Path, version: str) -> str:
    """The environment image of the project `gate` with pytest 7, 8 or 9, made once per machine."""
    tag = f"race-tests-validate:pytest{version}"
    recipe = digest([DOCKERFILE, PYTESTS[version], GATE])
    found = bench.engine.image(tag)
    if found is not None and found.labels.get("race.recipe") == recipe:
        return tag
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", str(folder), "--only-binary",
         ":all:", "--python-version", "3.11", PYTESTS[version]],
        check=True,
    )  # fmt: skip
    base = ensure_base(bench, "3.11").runtime
    context = {
        f"site/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    context |= {"Dockerfile": DOCKERFILE.format(base=base).encode(), "repo/gate.py": GATE.encode()}
    context["repo/README"] = b"The project gate.\n"
    bench.engine.build(context, tag=tag, labels={"race.recipe": recipe})
    return tag


@pytest.fixture(scope="session")
def gate_image(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The image of the project `gate` with the asked version of pytest."""
    return lambda version: build_gate_image(bench, tmp_path_factory.mktemp("site"), version)


def adding(files: dict[str, str]) -> bytes:
    """A git diff that adds files."""
    text = ""
    for name, body in files.items():
        lines = difflib.unified_diff([], body.splitlines(keepends=True), "/dev/null", f"b/{name}")
        text += f"diff --git a/{name} b/{name}\nnew file mode 100644\n" + "".join(lines)
    return text.encode()


@pytest.fixture
def subject(gate_image: Callable[[str], str]) -> Callable[..., Subject]:
    """A validation subject: the project gate with these new test files."""

    def make(files: dict[str, str], version: str = "9", **changes: object) -> Subject:
        values: dict[str, object] = {
            "image": gate_image(version),
            "fix_patch": FIX.encode(),
            "test_patch": adding(files),
            "limits": Limits(memory_mb=512, pids=128),
            "test_seconds": 20.0,
            "run_seconds": 60.0,
        }
        return Subject(**(values | changes))

    return make
