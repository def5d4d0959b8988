"""Patches that try to buy a verdict, and honest ones that must not suffer: data, and their rendering.

Each file of attacks/ and honest/ says its kind, its mechanism in a line, and what it does to a task's
tree; `rendering` turns it into a patch for a given task.
"""
