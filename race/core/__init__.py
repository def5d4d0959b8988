"""Decisions only: values in, values out. No input or output, no clock, no hidden randomness."""
