"""Words about counters."""


def describe(value: int) -> str:
    """Name a value's size."""
    if value < 0:
        return "debt"
    return "none" if value == 0 else "some"
