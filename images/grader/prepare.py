"""What the test image has to know before it can grade: made once, while the image is built.

Runs nothing of the project. Standard library only.
"""

from __future__ import annotations

import base64
import glob
import json
import os
import subprocess
import sys
import sysconfig

import cage
import tree

from race.core import unified_diff

NOBODY = 65534
_COMPILE = """
import compileall, py_compile, sys
compileall.compile_dir(
    sys.argv[1], quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
)
"""


def prepare(place: str) -> None:
    """Record the base tree, the hidden tests' files and the names that modules must not take."""
    with open(os.path.join(place, "task.json"), encoding="utf-8") as stream:
        task = json.load(stream)
    root = task["root"]
    tree.record(root, place)
    base = tree.Base(place)
    with open(os.path.join(place, "test.patch"), "rb") as stream:
        patch = stream.read()
    touched = [path for change in unified_diff.read_patch(patch) for path in change.paths]
    made = tree.apply_exactly(base, root, patch, touched, NOBODY) if touched else {}
    hidden = {
        path: None if data is None else base64.b64encode(data).decode() for path, data in made.items()
    }
    _write(place, "hidden.json", hidden)
    _write(place, "taken.json", sorted(taken_names(task["python"], root)))
    cage.remove(os.path.join(place, "test.patch"))
    compile_grader(task["python"])


def compile_grader(python: str) -> None:
    """Byte-code of the grader beside its modules, for the launcher's interpreter and for the tests'."""
    here = os.path.dirname(os.path.abspath(__file__))
    for interpreter in dict.fromkeys((sys.executable, python)):
        subprocess.run([interpreter, "-I", "-S", "-c", _COMPILE, here], check=False)


def taken_names(python: str, root: str) -> set[str]:
    """Top-level modules of the standard library and of the environment, without the project's own."""
    names = set(sys.builtin_module_names)
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    folders += glob.glob(
        os.path.join(os.path.dirname(os.path.dirname(python)), "lib", "python3*", "site-packages")
    )
    for folder in folders:
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            stem, path = name.split(".")[0], os.path.join(folder, name)
            module = name.endswith((".py", ".so"))
            package = os.path.isdir(path) and any(
                inner.endswith((".py", ".so")) for inner in os.listdir(path)
            )
            if stem.isidentifier() and (module or (package and "." not in name)):
                names.add(stem)
    own = {name.split(".")[0] for name in os.listdir(root)}
    for inner in ("src", "lib", "python"):
        if os.path.isdir(os.path.join(root, inner)):
            own |= {name.split(".")[0] for name in os.listdir(os.path.join(root, inner))}
    return names - own - {"site-packages", "__pycache__"}


def _write(place: str, name: str, value: object) -> None:
    with open(os.path.join(place, name), "w", encoding="utf-8", errors="surrogateescape") as stream:
        json.dump(value, stream, sort_keys=True)
