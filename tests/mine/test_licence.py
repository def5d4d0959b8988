"""Licences by their texts, cross-checked with metadata."""

from __future__ import annotations

import pytest

from race.core.licence import licence_files, licence_findings, read_licence
from race.settings import PERMISSIVE

MIT = b"""MIT License

Copyright (c) 2020 Sample Author

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
ISC = b"""ISC License

Copyright (c) 2020 Sample Author

Permission to use, copy, modify, and/or distribute this software for any
purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH
REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY
AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM
LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR
OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR
PERFORMANCE OF THIS SOFTWARE.
"""


def test_one_text_is_enough() -> None:
    """The text decides; metadata that agrees adds nothing."""
    found = read_licence({"LICENSE": MIT}, {"pyproject.toml": b'[project]\nlicense = "MIT"\n'})
    assert (found.expression, found.declared) == ("MIT", "MIT")
    assert licence_findings(found, PERMISSIVE) == []


def test_changed_margins_and_years_do_not_matter() -> None:
    """A text is known by its words, not by its layout."""
    text = b"\xef\xbb\xbf" + MIT.replace(b"\n", b"\r\n").replace(
        b"2020 Sample Author", b"1999-2024 S. Author and others"
    )
    assert read_licence({"COPYING": text}, {}).expression == "MIT"


@pytest.mark.parametrize("declared", ["MIT OR ISC", "Dual: MIT or ISC"])
def test_several_files_are_a_choice_when_metadata_says_so(declared: str) -> None:
    """One allowed licence of a choice will do."""
    metadata = {"pyproject.toml": f'[project]\nlicense = "{declared}"\n'.encode()}
    found = read_licence({"LICENSE-MIT": MIT, "LICENSE-ISC": ISC}, metadata)
    assert found.expression == "ISC OR MIT"
    assert licence_findings(found, ["MIT"]) == []


def test_several_texts_without_a_choice_must_all_be_allowed() -> None:
    """A bundled part's licence counts like the project's own."""
    found = read_licence({"LICENSE": MIT + b"\n\n-----\n\n" + ISC}, {})
    assert found.expression == "MIT AND ISC"
    assert [f.rule for f in licence_findings(found, ["MIT"])] == ["licence"]
    assert licence_findings(found, ["MIT", "ISC"]) == []


def test_none_found_says_what_the_metadata_claims() -> None:
    """A claim without a text does not make a licence."""
    found = read_licence(
        {"LICENSE": b"All rights reserved."}, {"setup.py": b"setup(\n    license='BSD',\n)"}
    )
    (finding,) = licence_findings(found, PERMISSIVE)
    assert finding.rule == "no-licence"
    assert "'BSD'" in finding.message


def test_metadata_that_disagrees_is_a_warning() -> None:
    """A person should look, but the text stands."""
    metadata = {"setup.cfg": b"[metadata]\nlicense = GPL-3.0\n"}
    (finding,) = licence_findings(read_licence({"LICENSE": MIT}, metadata), PERMISSIVE)
    assert (finding.rule, finding.severity) == ("licence-metadata", "warning")


def test_which_files_hold_licences() -> None:
    """At the top of a tree, in the spellings that occur."""
    names = ["LICENSE", "LICENCE.txt", "COPYING", "license.md", "UNLICENSE", "LICENSE-MIT"]
    names.append("MIT-LICENSE.txt")
    others = ["licensing.py", "src", "README.md", "license.py"]
    assert licence_files([*names, *others]) == sorted(names)
