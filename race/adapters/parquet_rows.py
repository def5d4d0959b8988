"""Rows of a Parquet file, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from race.errors import Malformed


def parquet_rows(path: Path, size: int = 20_000) -> Iterator[list[dict[str, Any]]]:
    """Batches of rows as dictionaries; absent values are None. Raises Malformed, naming the file."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=size):
                yield batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise Malformed(
            path, "", f"not a readable Parquet file: {str(error).splitlines()[0]}"
        ) from error
