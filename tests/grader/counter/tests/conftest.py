import pytest

from counter import Counter


@pytest.fixture
def counter() -> Counter:
    return Counter()
