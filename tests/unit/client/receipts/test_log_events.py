"""The log events of the manual, held against those of the code."""

import re
from pathlib import Path

from warren.client.receipts.receipts import EVENTS, LEVELS

ROOT = Path(__file__).parents[4]


def test_every_log_event_is_in_the_manual() -> None:
    _, _, chapter = (ROOT / "docs/receipts.md").read_text().partition("## Logs")
    documented = set(re.findall(r"`((?:receipt|chaser)\.\w+)`", chapter.partition("\n## ")[0]))
    sources = "".join(path.read_text() for path in (ROOT / "src/warren/client/receipts").glob("*.py"))
    shared = (ROOT / "src/warren/client/tables/leases.py").read_text()
    written = set(re.findall(r'"((?:receipt|chaser)\.\w+)"', sources))
    written |= {f"chaser.{event}" for event in re.findall(r'f"\{self\._job\}\.(\w+)"', shared)}
    assert documented == written
    assert EVENTS.keys() == LEVELS.keys()
