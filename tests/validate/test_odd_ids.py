import pytest

from race.core.classify import classify
from race.core.matrix import touched_files, touched_suite
from race.settings import ReliabilitySection
from race.work.matrix_runs import run_matrix
from race.work.repeating import repeat
from race.work.trials import Work

pytestmark = [pytest.mark.engine, pytest.mark.network]

ODD = r"""
import time, unittest
import pytest
from gate import FIXED

@pytest.mark.parametrize("value", [
    "a::b", "a/b", "a b", "a[b]", "x]", "[", "line\nbreak", "tab\t", "ümlaut ☃", "", "-k", "@x", "a\\b", "0x7fff1234abcd",
])
def test_parameter(value): assert FIXED

@pytest.mark.parametrize("value", ["same", "same"])
def test_duplicate_parameters(value): assert FIXED

def test_duplicate(): assert False
def test_duplicate(): assert FIXED

class TestPlain:
    class TestInner:
        def test_deep(self): assert FIXED

class Unit(unittest.TestCase):
    def test_unit(self): self.assertTrue(FIXED)
    def test_subtests(self):
        for number in range(3):
            with self.subTest(number=number): self.assertTrue(FIXED or number == 1)
    @unittest.expectedFailure
    def test_expected(self): self.fail()

@pytest.fixture(params=["one::two", "three"])
def way(request): return request.param
def test_fixture_parameters(way): assert FIXED

class Thing: pass
@pytest.mark.parametrize("thing", [Thing()], ids=repr)
def test_address(thing): assert FIXED
@pytest.mark.parametrize("moment", [time.time_ns()], ids=str)
def test_moment(moment): assert FIXED
"""  # noqa: E501
DOCTEST = '''
"""A module of the product.

>>> from gate import FIXED
>>> FIXED
True
"""
'''
CONFTEST = "import gate\n"
INI = "[pytest]\naddopts = -q --doctest-modules\npython_files = test_*.py check_*.py\n"
ORDERED = """
import itertools
import pytest
from gate import FIXED
_numbers = itertools.count()
@pytest.mark.parametrize("number", [next(_numbers), next(_numbers)])
def test_counted(number): assert FIXED
"""
FILES = {
    "tests/test_odd.py": ODD,
    "tests/deep/tests/test_same_name_là.py": "from gate import FIXED\ndef test_it(): assert FIXED\n",
    "product/tests/check_inside.py": "from gate import FIXED\ndef test_inside(): assert FIXED\n",
    "tests/test_ordered.py": ORDERED,
    "tests/test_doc.py": DOCTEST,
    "pytest.ini": INI,
}


@pytest.mark.parametrize("version", ["7", "8", "9"])
def test_ids_of_every_shape_are_listed_and_can_be_run_alone(bench, subject, version):
    """Odd ids end in fail-to-pass on every supported pytest, and each is found again by its id."""
    one = subject(FILES, version, test_seconds=10.0)
    touched = touched_suite(one.test_patch)
    ran = run_matrix(
        bench.engine, one, touched, None, touched_files(one.test_patch),
        runs=2, suite_seconds=0, say=lambda _: None,
    )  # fmt: skip
    assert {seen.pytest.split(".")[0] for seen in ran.cells["new-with"]} == {version}
    done = classify(ran.outcomes())
    assert done.accepted, done.findings
    names = " ".join(done.fail_to_pass)
    for part in (
        "[a::b]", "[a/b]", "[a b]", "[a[b]]", "[x]]", "[[]", r"[line\nbreak]", r"[tab\t]", "[]", "[-k]",
        "[@x]",
        "[0x7fff1234abcd]", "::test_duplicate ", "TestPlain::TestInner::test_deep", "Unit::test_unit",
        "Unit::test_subtests", "[one::two]", "tests/deep/tests/test_same_name_là.py::test_it",
        "product/tests/check_inside.py::test_inside", "test_ordered.py::test_counted[1]",
        "tests/test_doc.py::test_doc",
    ):  # fmt: skip
        assert part in names + " ", part
    duplicates = [test_id for test_id in done.fail_to_pass if "duplicate_parameters" in test_id]
    assert len(duplicates) == len(set(duplicates)) == 2
    assert {drop.id: drop.reason for drop in done.dropped} == {
        "tests/test_odd.py::test_address[…]": "unstable-id",
        "tests/test_odd.py::test_moment[…]": "unstable-id",
        "tests/test_odd.py::Unit::test_expected": "expected-failure",
    }
    settings = ReliabilitySection(limit=0.5, repeats=5)
    again = repeat(Work(bench.engine, one, "gate__gate-1", settings), done.fail_to_pass)
    assert again.out == {}
    assert again.bounds is not None
    assert again.ids == done.fail_to_pass
