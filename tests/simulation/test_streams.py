"""Random worlds with streams: after every crash of the node an offset is one message, and none is lost."""

from collections import Counter
from collections.abc import Iterator

import pytest

from warren.broker.model.effects import WriteArchive
from warren.broker.model.events import ArchiveWritten
from warren.sim.files import SimulatedArchives
from warren.sim.streams import StreamLedger, run_streams

SEEDS = 40
BLOCK = 10
STEPS = 2_500
CORNERS = (
    "WriteArchive",
    "ReadArchive",
    "DropArchive",
    "ReadJournal",
    "node was killed",
    "node lost its power",
    "node stopped",
    "died at write archive",
    "died at flush archive",
    "died at cut archive",
)


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_offset_is_one_message_after_any_faults(first: int) -> None:
    outcomes = [run_streams(seed, STEPS) for seed in range(first, first + BLOCK)]
    assert [outcome.verdict() for outcome in outcomes if not outcome.good] == []
    # a world in which nothing happens proves nothing
    assert sum(outcome.confirmed for outcome in outcomes) > 500
    assert sum(outcome.seen["read"] for outcome in outcomes) > 1_000


def test_random_worlds_reach_every_situation() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS, SEEDS + 25):
        seen.update(run_streams(seed, STEPS).seen)
    assert [corner for corner in CORNERS if not seen[corner]] == []


def test_a_disk_that_reports_a_chunk_before_it_is_flushed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SimulatedArchives._write

    def hasty(self: SimulatedArchives, order: WriteArchive) -> Iterator[tuple[str, int]]:
        self._emit(ArchiveWritten(order.ticket))
        yield from honest(self, order)

    monkeypatch.setattr(SimulatedArchives, "_write", hasty)
    verdicts = [run_streams(seed, STEPS) for seed in range(12)]
    assert any(complaint.rule == "nothing is damaged" for one in verdicts for complaint in one.complaints)


def complaints_of(*sightings: tuple[int, int | None, str], dropping: bool = False) -> list[str]:
    complaints: list[str] = []
    ledger = StreamLedger("log", dropping, complaints.append)
    for offset, before, message in sightings:
        ledger.saw("reader", offset, before, message)
    return complaints


def test_the_ledger_notices_what_must_not_be() -> None:
    assert complaints_of((0, None, "a 1"), (1, 0, "a 2"), (0, None, "a 1")) == []
    assert complaints_of((0, None, "a 1"), (0, None, "a 2"))[0].startswith("offset 0 of log was a 1")
    assert complaints_of((0, None, "a 1"), (1, 0, "a 1"))[0].startswith("a 1 of log has offsets 0 and 1")
    assert complaints_of((0, None, "a 1"), (2, 0, "a 3"))[0].startswith("reader was given offset 2 of log after 0")
    assert complaints_of((0, None, "a 1"), (2, 0, "a 3"), dropping=True) == []
    complaints: list[str] = []
    ledger = StreamLedger("log", False, complaints.append)
    ledger.confirmed.update({"a 1", "a 2"})
    ledger.check({0: "a 2"})
    assert complaints == ["log lost a 1, which was confirmed, and 0 others"]
