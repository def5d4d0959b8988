"""What layers gave when they were searched, on disk between commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from race.core.leaks.layers import LayerScan
from race.core.records import canonical
from race.store import write_atomic

_LAYER = re.compile(r"^sha256:[0-9a-f]{64}$")


class ScanCache:
    """Scans on disk: <cache>/leaks/<key>/<layer>.json, and image configurations beside them."""

    def __init__(self, root: Path | None, key: str) -> None:
        self._root = root / "leaks" if root else None
        self._folder = self._root / key[:32] if self._root else None

    @staticmethod
    def _load(path: Path) -> Mapping[str, Any] | None:
        try:
            value = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def layer(self, layer: str) -> LayerScan | None:
        """A layer's scan, when it was kept by this version."""
        if self._folder is None or not _LAYER.match(layer):
            return None
        value = self._load(self._folder / f"{layer[7:]}.json")
        return LayerScan.from_json(value) if value else None

    def keep_layer(self, scan: LayerScan) -> None:
        """Keep a layer's scan."""
        if self._folder is not None:
            text = json.dumps(scan.as_json(), separators=(",", ":"))
            write_atomic(self._folder / f"{scan.digest[7:]}.json", text.encode())

    def config(self, image_id: str) -> dict[str, Any] | None:
        """An image's configuration."""
        if self._root is None or not _LAYER.match(image_id):
            return None
        value = self._load(self._root / "configs" / f"{image_id[7:]}.json")
        return dict(value) if value else None

    def keep_config(self, image_id: str, config: Mapping[str, Any]) -> None:
        """Keep an image's configuration."""
        if self._root is not None and _LAYER.match(image_id):
            write_atomic(self._root / "configs" / f"{image_id[7:]}.json", canonical(dict(config)))
