# ruff: noqa: PTH
"""A virtual environment in layers: `layers.py VENV OUT COUNT`, in a builder stage.

Moves its files into OUT/1 .. OUT/COUNT, each below the path that it had: the largest distributions one
to a folder, largest first, and all that is left in the last. Two environments that have a large
distribution in common then have its layer in common. Time stamps are set, so that the same files make
the same layer.
"""

import csv
import glob
import os
import sys

EPOCH = 946684800
LARGE = 2**20
"""A smaller distribution is not worth a layer of its own."""


def claimed(record, taken):
    """The files of a distribution by its RECORD, with their byte-code, that no other one has taken."""
    top = os.path.dirname(os.path.dirname(record))
    paths = set()
    with open(record, newline="", encoding="utf-8") as stream:
        for row in csv.reader(stream):
            path = os.path.normpath(os.path.join(top, row[0])) if row else ""
            folder, name = os.path.split(path)
            cached = os.path.join(
                folder, "__pycache__", f"{name[:-3]}.{sys.implementation.cache_tag}.pyc"
            )
            paths |= {path, cached} if name.endswith(".py") else {path}
    return {path for path in paths - taken if os.path.lexists(path) and not os.path.isdir(path)}


def distributions(venv):
    """The files of each large distribution, the largest first; of the same size by name."""
    taken, sized = set(), []
    records = os.path.join(venv, "lib", "python3*", "site-packages", "*.dist-info", "RECORD")
    for record in sorted(glob.glob(records)):
        files = {path for path in claimed(record, taken) if path.startswith(venv + os.sep)}
        taken |= files
        size = sum(os.lstat(path).st_size for path in files)
        sized.append((-size, record, files))
    return [files for size, _, files in sorted(sized, key=lambda item: item[:2]) if -size >= LARGE]


def move(path, out):
    """One file to its place below OUT, with the folders above it."""
    parts, there, here = path.strip(os.sep).split(os.sep)[:-1], out, os.sep
    for part in parts:
        there, here = os.path.join(there, part), os.path.join(here, part)
        if not os.path.isdir(there):
            os.mkdir(there)
            os.chmod(there, os.lstat(here).st_mode & 0o7777)
    os.rename(path, os.path.join(there, os.path.basename(path)))
    while not os.listdir(here):
        os.rmdir(here)
        here = os.path.dirname(here)


def main(venv, out, count):
    last = int(count)
    inside = [os.path.join(out, str(number)) + os.path.dirname(venv) for number in range(1, last + 1)]
    for folder in inside:
        os.makedirs(folder)
    for number, files in enumerate(distributions(venv)[: last - 1], 1):
        for path in sorted(files):
            move(path, os.path.join(out, str(number)))
    os.rename(venv, os.path.join(inside[-1], os.path.basename(venv)))
    for folder, inner, files in os.walk(out, topdown=False):
        for name in (*files, *inner):
            os.utime(os.path.join(folder, name), (EPOCH, EPOCH), follow_symlinks=False)
    # An engine may lose a layer in which nothing changes: in every other one the folder's time does.
    for number, folder in enumerate(inside[:-1], 1):
        os.utime(folder, (EPOCH - number, EPOCH - number))


if __name__ == "__main__":
    main(*sys.argv[1:])
