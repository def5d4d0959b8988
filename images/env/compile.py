"""Byte-code for what a virtual environment imports: `compile.py VENV`, in a builder stage.

It is checked by no time stamp, so that the same sources give the same files. Left out, as nobody
imports them while tests run: test packages inside of a package, and of a folder with very many modules
(lexers, locales) those that no import statement names. A module without byte-code works; it is
compiled in memory each time.
"""

import ast
import os
import py_compile
import sys
import warnings
from pathlib import Path

TESTS = {"tests", "_tests"}
MANY = 100
"""A folder of more modules than this holds plug-ins, of which a program takes few."""


def folders(top):
    """Folder (relative to TOP) -> names of its modules."""
    found = {}
    for folder, inner, files in os.walk(top):
        inner.sort()
        modules = sorted(name[:-3] for name in files if name.endswith(".py"))
        if modules:
            found[Path(folder).relative_to(top)] = modules
    return found


def imports(source, package):
    """Dotted names that the import statements of a module name; PACKAGE is the one that it is in."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def below(names, package):
    """The modules of PACKAGE among dotted names."""
    start = package + "."
    return {name[len(start) :].split(".")[0] for name in names if name.startswith(start)}


def named(top, found, folder):
    """The modules of a folder that something outside of it imports, and what these import in turn."""
    package = ".".join(folder.parts)
    wanted = {"__init__"}
    for other, modules in found.items():
        for module in modules if other != folder else ():
            source = (top / other / f"{module}.py").read_bytes()
            if folder.name.encode() in source:
                wanted |= below(imports(source, ".".join(other.parts)), package)
    kept = set()
    while wanted:
        module = wanted.pop()
        if module in found[folder] and module not in kept:
            kept.add(module)
            wanted |= below(imports((top / folder / f"{module}.py").read_bytes(), package), package)
    return kept


def main(venv):
    warnings.simplefilter("ignore")
    (top,) = Path(venv, "lib").glob("python3*/site-packages")
    found = folders(top)
    for folder, modules in found.items():
        if TESTS & set(folder.parts[1:]):
            continue
        for module in sorted(named(top, found, folder)) if len(modules) > MANY else modules:
            try:
                py_compile.compile(
                    str(top / folder / f"{module}.py"), doraise=True, quiet=2,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )  # fmt: skip
            except (py_compile.PyCompileError, ValueError, RecursionError, OSError):
                continue


if __name__ == "__main__":
    main(*sys.argv[1:])
