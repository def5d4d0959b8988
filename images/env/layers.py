"""A virtual environment in layers: `layers.py VENV OUT COUNT`, in a builder stage.

Moves its files into OUT/1 .. OUT/COUNT, each below the path that it had: the largest distributions one
to a folder, largest first, and all that is left in the last. Two environments that have a large
distribution in common then have its layer in common. Time stamps are set, so that the same files make
the same layer.
"""

import csv
import os
import sys
from pathlib import Path

EPOCH = 946684800
LARGE = 2**20
"""A smaller distribution is not worth a layer of its own."""


def claimed(record):
    """The files of a distribution by its RECORD, with their byte-code."""
    top = record.parent.parent
    paths = set()
    with record.open(newline="", encoding="utf-8") as stream:
        for row in filter(None, csv.reader(stream)):
            path = Path(os.path.normpath(top / row[0]))
            paths.add(path)
            if path.suffix == ".py":
                paths.add(
                    path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
                )
    return {path for path in paths if path.is_symlink() or path.is_file()}


def distributions(venv):
    """The files of each large distribution, the largest first; of the same size by name."""
    taken, sized = set(), []
    for record in sorted(venv.glob("lib/python3*/site-packages/*.dist-info/RECORD")):
        files = {path for path in claimed(record) - taken if venv in path.parents}
        taken |= files
        size = sum(path.lstat().st_size for path in files)
        sized.append((-size, str(record), files))
    return [files for size, _, files in sorted(sized, key=lambda item: item[:2]) if -size >= LARGE]


def move(path, out):
    """One file to its place below OUT, with the folders above it; an empty folder goes away."""
    for above in reversed(path.parents[:-1]):
        there = out / above.relative_to(above.anchor)
        if not there.is_dir():
            there.mkdir()
            there.chmod(above.stat().st_mode & 0o7777)
    path.rename(out / path.relative_to(path.anchor))
    folder = path.parent
    while not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def main(venv, out, count):
    venv, last = Path(venv), int(count)
    layers = [Path(out, str(number)) for number in range(1, last + 1)]
    inside = [layer / venv.parent.relative_to(venv.anchor) for layer in layers]
    for folder in inside:
        folder.mkdir(parents=True)
    for layer, files in zip(layers, distributions(venv)[: last - 1], strict=False):
        for path in sorted(files):
            move(path, layer)
    venv.rename(inside[-1] / venv.name)
    for folder, inner, files in os.walk(out, topdown=False):
        for name in (*files, *inner):
            os.utime(Path(folder, name), (EPOCH, EPOCH), follow_symlinks=False)
    # An engine may lose a layer in which nothing changes: in every other one the folder's time does.
    for number, folder in enumerate(inside[:-1], 1):
        os.utime(folder, (EPOCH - number, EPOCH - number))


if __name__ == "__main__":
    main(*sys.argv[1:])
