"""What hidden tests rely on, found in their sources through every way of saying it."""

# ruff: noqa: E501 - sources and messages stay on one line
from __future__ import annotations

import pytest

from race.core.interface.extract import Interface
from race.core.interface.items import InterfaceItem, read_interface
from race.core.statement.behaviour import behaviour_of

BASE = {
    "src/shelf/__init__.py": "from shelf._core import Shelf, open_shelf\n",
    "src/shelf/_core.py": """
class Shelf:
    size = 1

    def __init__(self, size):
        self.size = size

    def put(self, item, *, front=False):
        pass

    def take(self):
        raise KeyError("nothing left")

    def flush(self):
        pass


def open_shelf(size=3) -> Shelf:
    return Shelf(size)


def pair():
    return 1, 2
""",
    "tests/conftest.py": "",
    "tests/test_shelf.py": "",
}
FIXED = """
import asyncio
import os


class ShelfError(Exception):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class SlowShelf(UserWarning):
    pass


class Shelf:
    size = 1

    def __init__(self, size, label=None):
        self.size = size
        self._secret_guard = None

    def put(self, item, *, front=False, wait=0):
        if os.environ.get("SHELF_STRICT"):
            raise ShelfError(f"shelf {self.size} is full of things", 3)

    def take(self):
        raise KeyError("nothing left")

    async def flush(self):
        return [1]

    def drain(self, at_most, *, force=False):
        return {"moved_items": 1}

    @property
    def usage(self):
        return 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        pass


def open_shelf(size=3) -> Shelf:
    return Shelf(size)


def pair():
    return 1, 2, 3


def _private_helper():
    pass
"""
AFTER = {
    "src/shelf/__init__.py": "from shelf._core import Shelf, ShelfError, SlowShelf, open_shelf\n",
    "src/shelf/_core.py": FIXED,
    "src/shelf/tools.py": "LIMIT = 3\n\ndef tidy(shelf, hard):\n    pass\n",
}


def found(test: str, conftest: str = "") -> set[str]:
    """The interface's sentences for one test file."""
    tests = {"tests/test_shelf.py": test.encode(), "tests/conftest.py": conftest.encode()}
    before = {path: text.encode() for path, text in BASE.items()} | tests
    after = before | {path: text.encode() for path, text in AFTER.items()} | tests
    return {item.sentence() for item in Interface(before, after).items(["tests/test_shelf.py::test_it"])}


CASES = {
    "imported-class": (
        "from shelf import ShelfError\ndef test_it():\n    raise ShelfError('x', 1)\n",
        {"exception `shelf.ShelfError`, a kind of `Exception`"},
    ),
    "new-module": (
        "from shelf.tools import tidy\ndef test_it():\n    tidy(None, hard=1)\n",
        {"module `shelf.tools`", "function `shelf.tools.tidy(shelf, hard)`"},
    ),
    "module-attribute": (
        "import shelf.tools\ndef test_it():\n    assert shelf.tools.LIMIT\n",
        {"module `shelf.tools`", "name `shelf.tools.LIMIT`"},
    ),
    "method-of-a-local": (
        "from shelf import Shelf\ndef test_it():\n    s = Shelf(1)\n    s.drain(2)\n",
        {"method `shelf.Shelf.drain(at_most)`"},
    ),
    "method-with-keyword": (
        "from shelf import open_shelf\ndef test_it():\n    open_shelf().drain(2, force=True)\n",
        {"method `shelf.Shelf.drain(at_most, *, force=...)`"},
    ),
    "property": (
        "from shelf import Shelf\ndef test_it():\n    assert Shelf(1).usage == 0\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "private-attribute-that-a-test-reads": (
        "from shelf import Shelf\ndef test_it():\n    assert Shelf(1)._secret_guard is None\n",
        {"attribute `shelf.Shelf._secret_guard`"},
    ),
    "constructor-parameter": (
        "from shelf import Shelf\ndef test_it():\n    Shelf(1, label='a')\n",
        {"parameter `label` of `shelf.Shelf(...)`"},
    ),
    "positional-parameter": (
        "from shelf import Shelf\ndef test_it():\n    Shelf(1, 'a')\n",
        {"parameter `label` of `shelf.Shelf(...)`, position 2"},
    ),
    "method-parameter": (
        "from shelf import Shelf\ndef test_it():\n    Shelf(1).put(2, wait=3)\n",
        {"parameter `wait` of `shelf.Shelf.put(...)`"},
    ),
    "parameter-on-an-unknown-object": (
        "def test_it(anything):\n    anything.shelf.put(2, wait=3)\n",
        {"parameter `wait` of `shelf.Shelf.put(...)`"},
    ),
    "becomes-a-coroutine": (
        "from shelf import Shelf\nasync def test_it():\n    await Shelf(1).flush()\n",
        {"`shelf.Shelf.flush(...)` is awaited: a coroutine function"},
    ),
    "coroutine-given-to-run": (
        "import asyncio\nfrom shelf import Shelf\ndef test_it():\n    asyncio.run(Shelf(1).flush())\n",
        {"`shelf.Shelf.flush(...)` is awaited: a coroutine function"},
    ),
    "newly-returns": (
        "from shelf import Shelf\nasync def test_it():\n    gone = await Shelf(1).flush()\n    assert gone == [1]\n",
        {
            "`shelf.Shelf.flush(...)` is awaited: a coroutine function",
            "`shelf.Shelf.flush(...)` returns a value",
        },
    ),
    "more-values": (
        "from shelf._core import pair\ndef test_it():\n    a, b, c = pair()\n",
        {"`shelf._core.pair(...)` returns 3 values"},
    ),
    "context-manager": (
        "from shelf import Shelf\nasync def test_it():\n    async with Shelf(1) as s:\n        s.usage\n",
        {"asynchronous method `shelf.Shelf.__aenter__()`", "attribute `shelf.Shelf.usage`"},
    ),
    "monkeypatch-by-name": (
        "def test_it(monkeypatch):\n    monkeypatch.setattr('shelf.tools.LIMIT', 1)\n",
        {"module `shelf.tools`", "name `shelf.tools.LIMIT`"},
    ),
    "monkeypatch-by-object": (
        "import shelf\ndef test_it(monkeypatch):\n    monkeypatch.setattr(shelf.Shelf, 'drain', None)\n",
        {"method `shelf.Shelf.drain(at_most)`"},
    ),
    "mock-patch": (
        "from unittest import mock\ndef test_it():\n    with mock.patch('shelf._core._private_helper'):\n        pass\n",
        {"function `shelf._core._private_helper()`"},
    ),
    "mock-patch-object": (
        "from unittest.mock import patch\nfrom shelf import Shelf\n"
        "def test_it():\n    with patch.object(Shelf, 'drain'):\n        pass\n",
        {"method `shelf.Shelf.drain(at_most)`"},
    ),
    "getattr": (
        "from shelf import Shelf\ndef test_it():\n    getattr(Shelf(1), 'usage')\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "import-module": (
        "import importlib\ndef test_it():\n    importlib.import_module('shelf.tools').LIMIT\n",
        {"module `shelf.tools`", "name `shelf.tools.LIMIT`"},
    ),
    "raises-with-match": (
        "import pytest\nimport shelf\ndef test_it():\n"
        "    with pytest.raises(shelf.ShelfError, match='is full of things') as caught:\n"
        "        shelf.Shelf(1).put(1)\n    assert caught.value.code == 3\n",
        {
            "exception `shelf.ShelfError`, a kind of `Exception`",
            "attribute `shelf.ShelfError.code`",
            "message of `ShelfError`: `is full of things`",
        },
    ),
    "warns": (
        "import pytest\nfrom shelf import SlowShelf\ndef test_it():\n    with pytest.warns(SlowShelf):\n        pass\n",
        {"warning `shelf.SlowShelf`, a kind of `UserWarning`"},
    ),
    "except-clause": (
        "import shelf\ndef test_it():\n    try:\n        pass\n    except shelf.ShelfError as e:\n        e.code\n",
        {"exception `shelf.ShelfError`, a kind of `Exception`", "attribute `shelf.ShelfError.code`"},
    ),
    "isinstance-narrows": (
        "import shelf\ndef test_it(task):\n    assert isinstance(task.exception(), shelf.ShelfError)\n"
        "    assert task.exception().code == 3\n",
        {"exception `shelf.ShelfError`, a kind of `Exception`", "attribute `shelf.ShelfError.code`"},
    ),
    "environment-variable": (
        "def test_it(monkeypatch):\n    monkeypatch.setenv('SHELF_STRICT', '1')\n",
        {"text `SHELF_STRICT`"},
    ),
    "key-of-a-result": (
        "from shelf import Shelf\ndef test_it():\n    assert Shelf(1).drain(2)['moved_items'] == 1\n",
        {"method `shelf.Shelf.drain(at_most)`", "text `moved_items`"},
    ),
    "through-a-helper": (
        "from shelf import Shelf\ndef check(thing):\n    thing.usage\ndef test_it():\n    check(Shelf(1))\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "through-parametrisation": (
        "import pytest\nfrom shelf import Shelf\n@pytest.mark.parametrize('kind', [Shelf])\n"
        "def test_it(kind):\n    kind(1).usage\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "through-a-nested-function": (
        "from shelf import Shelf\ndef test_it():\n    async def use():\n        shelf.usage\n    shelf = Shelf(1)\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "through-an-argument-of-a-nested-function": (
        "from shelf import Shelf\ndef test_it():\n    def use(it):\n        it.usage\n    use(Shelf(1))\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "through-a-helper-that-is-given-away": (
        "import threading\nfrom shelf import Shelf\ndef use():\n    Shelf(1).usage\n"
        "def test_it():\n    threading.Thread(target=use).start()\n",
        {"attribute `shelf.Shelf.usage`"},
    ),
    "through-a-subclass": (
        "from shelf import Shelf\nclass Odd(Shelf):\n    def extra(self):\n        self.usage\n"
        "def test_it():\n    Odd(1).extra()\n    Odd(1).drain(1)\n",
        {"attribute `shelf.Shelf.usage`", "method `shelf.Shelf.drain(at_most)`"},
    ),
    "nothing-new": (
        "from shelf import Shelf\ndef test_it():\n    Shelf(1).put(2, front=True)\n    Shelf(1).take()\n",
        set(),
    ),
    "an-existing-message": (
        "import pytest\nfrom shelf import Shelf\ndef test_it():\n"
        "    with pytest.raises(KeyError, match='nothing left'):\n        Shelf(1).take()\n",
        set(),
    ),
    "names-of-other-libraries": (
        "import asyncio\ndef test_it():\n    asyncio.Queue().drain(1)\n    {}.usage\n",
        set(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_interface_is_found(name: str) -> None:
    """Each way in which a test relies on something new gives exactly its lines."""
    test, wanted = CASES[name]
    assert found(test) == wanted


def test_fixtures_of_conftest_are_followed() -> None:
    """A fixture of conftest.py, given or applied by itself, belongs to the test."""
    conftest = (
        "import pytest\nfrom shelf import Shelf\n@pytest.fixture\ndef shelf():\n    yield Shelf(1)\n"
        "@pytest.fixture(autouse=True)\ndef clean(monkeypatch):\n    monkeypatch.setenv('SHELF_STRICT', '')\n"
    )
    test = "def test_it(shelf):\n    assert shelf.usage\n"
    assert found(test, conftest) == {"attribute `shelf.Shelf.usage`", "text `SHELF_STRICT`"}


def test_other_tests_of_the_file_do_not_count() -> None:
    """Only what the asked tests and their module's import rely on is interface."""
    test = "from shelf import Shelf\ndef test_other():\n    Shelf(1).usage\ndef test_it():\n    pass\n"
    assert found(test) == set()


def test_a_class_of_tests_with_set_up() -> None:
    """`self` attributes that set-up makes are known in the tests of the class."""
    tests = {
        "tests/test_shelf.py": b"from shelf import Shelf\nclass TestShelf:\n"
        b"    def setup_method(self):\n        self.shelf = Shelf(1)\n"
        b"    def test_it(self):\n        self.shelf.drain(1)\n"
    }
    before = {path: text.encode() for path, text in BASE.items()} | tests
    after = before | {path: text.encode() for path, text in AFTER.items()}
    items = Interface(before, after).items(["tests/test_shelf.py::TestShelf::test_it[a-b]"])
    assert [item.sentence() for item in items] == ["method `shelf.Shelf.drain(at_most)`"]
    assert items[0].tests == ("tests/test_shelf.py::TestShelf::test_it[a-b]",)


def test_a_decorator_of_the_product_is_used_by_the_test() -> None:
    """What is put on a function or class inside of a test is called with it, and is what the test is about."""
    test = (
        b"import functools\nfrom shelf import safely, pair\n"
        b"def test_it():\n    @functools.wraps(pair)\n    @safely\n    def inner():\n        pass\n    inner()\n"
    )
    core = b"def safely(function):\n    return function\n\n\ndef pair():\n    return 1, 2\n"
    tree = {"src/shelf/__init__.py": core, "tests/test_shelf.py": test}
    fixed = tree | {"src/shelf/__init__.py": core.replace(b"return function", b"return pair")}
    assert behaviour_of(Interface(tree, fixed), "tests/test_shelf.py::test_it").subjects == (
        "shelf.safely",
    )


def test_a_call_on_an_object_of_unknown_class_is_of_the_one_class_that_has_it() -> None:
    """What a factory of another library gives back is what the test made for it, if only one class fits."""
    test = (
        b"import asyncio, unittest\nfrom shelf import Line, Wire\n"
        b"class TestLine(unittest.IsolatedAsyncioTestCase):\n    async def asyncSetUp(self):\n"
        b"        loop = asyncio.get_running_loop()\n"
        b"        _, self.line = await loop.create_connection(lambda: Line(Wire()))\n"
        b"    async def asyncTearDown(self):\n        await self.line.hang_up()\n"
        b"    async def test_ping(self):\n        await self.line.ping()\n        self.line.close()\n"
    )
    both = b"    def close(self):\n        pass\n"
    core = b"class Wire:\n" + both + b"\n\nclass Line:\n    async def ping(self):\n        pass\n" + both
    core += b"    async def hang_up(self):\n        pass\n"
    tree = {"src/shelf/__init__.py": core, "tests/test_shelf.py": test}
    fixed = tree | {"src/shelf/__init__.py": core.replace(b"        pass", b"        return 1")}
    about = behaviour_of(Interface(tree, fixed), "tests/test_shelf.py::TestLine::test_ping")
    assert about.spoken == ("shelf.Line.ping",)
    steps = ["create `Wire`", "create `Line`", "call `Line.ping`", "call `Line.hang_up`"]
    assert list(about.steps) == steps


def test_every_sentence_is_read_back() -> None:
    """A reader who has only the statement gets the same items."""
    items = [
        InterfaceItem(kind="module", name="a.b"),
        InterfaceItem(kind="exception", name="a.Bad", detail="ValueError"),
        InterfaceItem(kind="class", name="a.C", detail="(x, *, y=...)"),
        InterfaceItem(kind="function", name="a.f", detail="(x)", asynchronous=True),
        InterfaceItem(kind="method", name="a.C.m", detail="()"),
        InterfaceItem(kind="attribute", name="a.C.n"),
        InterfaceItem(kind="name", name="a.LIMIT"),
        InterfaceItem(kind="fixture", name="thing"),
        InterfaceItem(kind="parameter", name="p", detail="a.C.m", position=2),
        InterfaceItem(kind="coroutine", name="a.C.close"),
        InterfaceItem(kind="result", name="a.pair", detail="3 values"),
        InterfaceItem(kind="message", name="it is full", detail="Bad"),
        InterfaceItem(kind="message", name="it is full"),
        InterfaceItem(kind="text", name="KEY"),
    ]
    statement = "# Title\n\n" + "\n".join(f"- {item.sentence()}" for item in items)
    assert read_interface(statement) == items


def test_broken_sources_are_no_obstacle() -> None:
    """A file that does not parse, a loop of imports and a dynamic module give no finding and no error."""
    sources = {
        "pkg/__init__.py": b"from pkg.a import *\nfrom pkg.b import x\n",
        "pkg/a.py": b"from pkg.b import *\ndef broken(:\n",
        "pkg/b.py": b"from pkg import x\nfrom pkg.b import x as y\nclass Loop(Loop2): pass\nclass Loop2(Loop): pass\n",
        "pkg/c.py": b"def __getattr__(name):\n    return name\n",
        "tests/test_x.py": b"import pkg.c\nfrom pkg.a import anything\nfrom pkg.b import Loop\n"
        b"def test_it():\n    pkg.c.whatever\n    Loop().whatever\n    pkg.x\n",
    }
    assert Interface(sources, sources).items(["tests/test_x.py::test_it", "gone.py::test_gone"]) == []
