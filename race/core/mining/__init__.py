"""Which merged pull requests fix a concurrency bug, decided from their words and their diff."""
