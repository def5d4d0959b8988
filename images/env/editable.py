"""Run in a builder stage: `editable.py METHOD REPO OUT` makes the wheel that makes REPO importable.

METHOD is `editable` (the build back-end's own editable wheel, or one made from its metadata when it
cannot make one), `path` (a .pth file only) or `none`. Writes OUT/wheels and OUT/project.lock. With
METHOD `metadata` it writes only OUT/METADATA, with `wheel` an ordinary wheel and its name in OUT/name.
"""

import base64
import email
import hashlib
import importlib
import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

LEGACY = "setuptools.build_meta:__legacy__"


def read_build_system(repo):
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    path = Path(repo, "pyproject.toml")
    table = tomllib.loads(path.read_text("utf-8-sig")).get("build-system", {}) if path.exists() else {}
    return table.get("build-backend", LEGACY), table.get("backend-path", [])


def load(repo):
    name, paths = read_build_system(repo)
    sys.path[:0] = [os.path.join(repo, path) for path in paths]
    module, _, attributes = name.partition(":")
    backend = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        backend = getattr(backend, attribute)
    return backend


def import_roots(repo):
    """Folders that hold importable packages: `src` or `lib` when it has any, else the repository."""
    for name in ("src", "lib"):
        folder = Path(repo, name)
        if folder.is_dir() and any(folder.glob("*/__init__.py")) or any(folder.glob("*.py")):
            return [str(folder)]
    return [repo]


def metadata_folder(backend, out):
    """A dist-info folder by whatever the back-end offers."""
    if hasattr(backend, "prepare_metadata_for_build_wheel"):
        return Path(out, backend.prepare_metadata_for_build_wheel(out, None))
    name = backend.build_wheel(out, None)
    with zipfile.ZipFile(os.path.join(out, name)) as wheel:
        wheel.extractall(os.path.join(out, "unpacked"))
    return next(Path(out, "unpacked").glob("*.dist-info"))


def own_editable(backend, repo, wheels):
    """An editable wheel for a back-end without that hook: its metadata and a .pth file."""
    with tempfile.TemporaryDirectory() as scratch:
        info = metadata_folder(backend, scratch)
        kept = {path.name: path.read_bytes() for path in info.iterdir() if path.is_file()}
    kept.pop("RECORD", None)
    kept["WHEEL"] = b"Wheel-Version: 1.0\nGenerator: race\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    stem = info.name[: -len(".dist-info")]
    if "-" not in stem:
        stem = full_stem(kept["METADATA"])
    return write_wheel(wheels, stem, {f"{stem}.dist-info/{name}": data for name, data in kept.items()}, repo)


def full_stem(metadata):
    """What a wheel's name starts with; back-ends of old leave the version out of their folder's name."""
    fields = email.message_from_bytes(metadata)
    return "-".join((re.sub(r"[-_.]+", "_", fields["Name"]), fields["Version"].replace("-", "_")))


def path_only(repo, wheels):
    text = b"Metadata-Version: 2.1\nName: race-path\nVersion: 0\n"
    head = b"Wheel-Version: 1.0\nGenerator: race\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    info = "race_path-0.dist-info"
    return write_wheel(wheels, "race_path-0", {f"{info}/METADATA": text, f"{info}/WHEEL": head}, repo)


def write_wheel(wheels, stem, files, repo):
    pth = "".join(root + "\n" for root in import_roots(repo)).encode()
    files = {**files, f"{stem.split('-')[0]}-race.pth": pth}
    lines = []
    for name, data in sorted(files.items()):
        value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={value},{len(data)}")
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join(line + "\n" for line in [*lines, f"{record},,"]).encode()
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheels, name), "w") as wheel:
        for path in sorted(files):
            wheel.writestr(zipfile.ZipInfo(path, (2000, 1, 1, 0, 0, 0)), files[path])
    return name


def make(method, repo, wheels):
    if method == "path":
        return path_only(repo, wheels)
    backend = load(repo)
    if not hasattr(backend, "build_editable"):
        return own_editable(backend, repo, wheels)
    if hasattr(backend, "get_requires_for_build_editable"):
        wanted = backend.get_requires_for_build_editable(None)
        print("build requirements asked for:", wanted, flush=True)
    return backend.build_editable(wheels, None, None)


def lock_line(wheels, name):
    digest = hashlib.sha256(Path(wheels, name).read_bytes()).hexdigest()
    distribution, version = name.split("-")[:2]
    return f"{distribution}=={version} --hash=sha256:{digest}\n"


def main(method, repo, out):
    wheels = os.path.join(out, "wheels")
    os.makedirs(wheels)
    os.chdir(repo)
    if method == "metadata":
        backend = load(repo)
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copy(metadata_folder(backend, scratch) / "METADATA", out)
        return
    if method == "wheel":
        Path(out, "name").write_text(os.path.basename(load(repo).build_wheel(wheels, None)))
        return
    lock = Path(out, "project.lock")
    if method == "none":
        lock.write_text("")
        return
    name = make(method, repo, wheels)
    for path in os.listdir(wheels):
        if path != os.path.basename(name):
            shutil.rmtree(os.path.join(wheels, path), ignore_errors=True)
    lock.write_text(lock_line(wheels, os.path.basename(name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
