"""The dotted names under which the files of a tree can be imported."""

from __future__ import annotations

from collections.abc import Sequence

_ROOTS = ("src/", "lib/", "python/")


class ModuleNames:
    """Names of Python files. Where several files could have a name, the first of `files` has it.

    `paths` leads from a dotted name to its file; `folders` are the dotted names above those.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._packages = {path.rpartition("/")[0] for path in files if path.endswith("/__init__.py")}
        self.paths: dict[str, str] = {}
        self.folders: set[str] = set()
        for path in files:
            for name in self._possible(path):
                self.paths.setdefault(name, path)
                for cut in range(name.count(".")):
                    self.folders.add(".".join(name.split(".")[: cut + 1]))

    def of(self, path: str) -> str:
        """The dotted name that leads to this file and to no other; the path when none does."""
        names = self._possible(path)
        return next((name for name in names if self.paths.get(name) == path), path)

    def _possible(self, path: str) -> list[str]:
        """The dotted names that a file may be imported as, the likeliest first."""
        bare = path[: -len(".py")]
        if bare.endswith("/__init__") or bare == "__init__":
            bare = bare[: -len("/__init__")]
        folders = path.split("/")[:-1]
        depth = len(folders)
        while depth and "/".join(folders[:depth]) in self._packages:
            depth -= 1
        names = [".".join(bare.split("/")[depth:])] if bare else []
        for root in _ROOTS:
            if bare.startswith(root):
                names.append(bare[len(root) :].replace("/", "."))
        names.append(bare.replace("/", "."))
        return [name for name in dict.fromkeys(names) if name]
