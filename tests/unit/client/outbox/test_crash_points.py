"""The table of crash points in the manual, held against the tests that it names."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_every_crash_point_has_a_test() -> None:
    _, _, chapter = (ROOT / "docs/outbox.md").read_text().partition("## Crashes and their results")
    rows = [line for line in chapter.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    sources = "".join(path.read_text() for path in (ROOT / "tests/client").glob("test_*.py"))
    missing = [row for row in rows if not is_tested(row.split("|")[-2].strip(), sources)]
    assert len(rows) > 10
    assert missing == []


def is_tested(said: str, sources: str) -> bool:
    return said == "the same" or re.search(rf"^def {said.strip('`')}\(", sources, re.MULTILINE) is not None
