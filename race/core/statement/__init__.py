"""The deterministic writer: an honest bug report from what was observed and the interface."""
