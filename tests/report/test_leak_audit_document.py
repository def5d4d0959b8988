"""The leak audit as JSON, beside its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from race.cli import run
from race.core.sealed import Sealed
from race.store import Store
from race.work.manifests import write_manifest

DIGEST = "sha256:" + "7" * 64


def document(release: Path, output: Path) -> dict[str, Any]:
    """The document of a fresh report."""
    assert run(["report", str(release), "--output", str(output)]) == 0
    return dict(json.loads((output / "leak-audit.json").read_text()))


@pytest.fixture
def published(release: Path, tmp_path: Path) -> dict[str, Any]:
    """The document of a release with a manifest, in which one image is known by digest."""
    store = Store(release)
    for instance_id in ("acme__flow-1", "acme__hidden-9"):
        store.task(instance_id).note("verify", {"env_id": DIGEST})
    write_manifest(store)
    return document(release, tmp_path / "site")


def test_probes_are_counted_by_row_and_add_up(published: dict[str, Any]) -> None:
    """Each probe's row adds up to the audited images, private tasks among them."""
    counts = published["counts"]
    assert (counts["audited"], counts["private"], counts["not_audited"]) == (9, 1, 3)
    rows = {row["name"]: row for row in published["probes"]}
    assert set(rows) == {"one-commit", "fix-copies", "live"}
    for row in rows.values():
        assert row["passed"] + row["found"] + row["not_checked"] == 9
    assert (rows["fix-copies"]["found"], rows["fix-copies"]["findings"]) == (1, 1)
    assert rows["live"]["not_checked"] == 9


def test_images_have_digests_findings_and_what_was_not_checked(published: dict[str, Any]) -> None:
    """Release, image, digest, each probe's finding with its place, each reason."""
    assert published["release"] == {"name": "winter", "version": "2", "sample": False}
    images = {image["instance_id"]: image for image in published["images"]}
    assert len(images) == 8
    assert images["acme__flow-1"]["digest"] == DIGEST
    assert images["acme__flow-3"]["digest"] is None
    spoiled = {probe["name"]: probe for probe in images["acme__flow-2"]["probes"]}
    assert spoiled["fix-copies"]["findings"] == [
        {"path": "/etc/leak", "layer": 2, "what": "a line of the fix"}
    ]
    assert spoiled["live"]["why"] == "no engine"
    assert images["acme__flow-2"]["not_checked"] == ["live"]
    assert images["acme__flow-2"]["clean"] is False


def test_private_tasks_hidden_tests_and_excerpts_are_not_in_it(published: dict[str, Any]) -> None:
    """It is made for publishing: nothing names a private task, a hidden test or an excerpt."""
    text = json.dumps(published)
    for secret in ("hidden-9", "hidden-10", "acme/hidden", "test_secret_name", "SECRET-EXCERPT"):
        assert secret not in text


def test_the_page_shows_digests_and_reasons_too(
    published: dict[str, Any], release: Path, tmp_path: Path
) -> None:
    """The page for people has what the document has, and links it."""
    assert published
    page = (tmp_path / "site" / "leak-audit.html").read_text()
    assert DIGEST in page
    assert "Not checked, and why" in page
    for words in (*published["opened"], *published["not_opened"]):
        assert words in page
    assert 'href="leak-audit.json"' in page
    assert "hidden-9" not in page


def test_before_the_seal_the_document_says_that_nothing_was_audited(
    mined_release: Path, tmp_path: Path
) -> None:
    """No images, no probes, every task counted as not audited."""
    found = document(mined_release, tmp_path / "site")
    assert (found["images"], found["probes"]) == ([], [])
    assert found["counts"]["not_audited"] == found["counts"]["tasks"] == 8


def test_an_audit_that_is_due_again_says_so(release: Path, tmp_path: Path) -> None:
    """When what a seal read has changed, document and page say that the audit is an earlier one."""
    before = document(release, tmp_path / "before")
    assert before["counts"]["outdated"] == 0
    assert all(image["current"] for image in before["images"])
    assert "due again" not in (tmp_path / "before" / "leak-audit.html").read_text()
    task = Store(release).task("acme__flow-1")
    record = task.read(Sealed)
    assert record is not None
    task.write(record.model_copy(update={"inputs": {"rules": "earlier"}}))
    after = document(release, tmp_path / "after")
    assert after["counts"]["outdated"] == 1
    assert [i["instance_id"] for i in after["images"] if not i["current"]] == ["acme__flow-1"]
    assert "due again" in (tmp_path / "after" / "leak-audit.html").read_text()
