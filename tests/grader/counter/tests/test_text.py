from counter import describe


def test_describe() -> None:
    assert describe(0) == "none"
    assert describe(3) == "some"
    assert describe(-3) == "debt"
