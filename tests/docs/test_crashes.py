"""Every place where a crash can happen has a test: the tests that the documentation's tables name exist."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT, Page, codes, read_page

HEADER = ("what fails, and when", "result", "test")
CHAPTERS = ("outbox.md", "inbox.md", "listening.md", "receipts.md")
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
TESTS_THERE = {name for path in (ROOT / "tests").rglob("test_*.py") for name in TEST.findall(path.read_text())}


def pages_with_crashes() -> list[Page]:
    return [page for page in map(read_page, sorted(DOCS.glob("*.md"))) if f"| {' | '.join(HEADER)} |" in page.text]


def named_in(page: Page) -> set[str]:
    return {name for row in page.rows(*HEADER) for name in codes(row[2])}


@pytest.mark.parametrize("page", pages_with_crashes(), ids=lambda page: page.path.name)
def test_every_crash_names_existing_tests(page: Page) -> None:
    for row in page.rows(*HEADER):
        named = codes(row[2])
        assert named or row[2] == "the same", row
        assert set(named) <= TESTS_THERE, row


def test_one_page_lists_every_crash() -> None:
    assert len(read_page(DOCS / "crashes.md").rows(*HEADER)) > 40


@pytest.mark.parametrize("page", pages_with_crashes(), ids=lambda page: page.path.name)
def test_that_page_has_every_test_of_the_chapters(page: Page) -> None:
    assert named_in(page) <= named_in(read_page(DOCS / "crashes.md"))


@pytest.mark.parametrize("name", [name for name in CHAPTERS if (DOCS / name).exists()])
def test_the_chapters_link_to_that_page(name: str) -> None:
    assert "(crashes.md" in (DOCS / name).read_text()
