"""The sample project `brook`: a small asyncio library whose history was written to be mined.

Its history lies in `history/` as patches, one file per change of the main branch. `write_sample`
replays them, so that every copy on every machine has the same commits with the same hashes.
"""

from __future__ import annotations

from race.sample.writing import HEAD, REPO, write_sample

__all__ = ["HEAD", "REPO", "write_sample"]
