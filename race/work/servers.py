"""Where projects without a clone were mined from."""

SERVERS = "github.json"
"""Ledger: project -> address of the server that it was mined from, empty for GitHub itself."""
