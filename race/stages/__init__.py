"""The six stages: one module each, with the stage function and its command."""
