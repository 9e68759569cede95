"""Where messages lie, as a start finds it: in segments that were just read, in the indexes of sealed ones.

An index that is missing or damaged is made again from its segment, which has everything that is in it and more. It is
read for that only if somebody needs it, or if it is not there at all.

Not here: reading a segment for what happened (`store.recovery`), an index's bytes (`store.index`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.journal import ENTRY_COST_BYTES, Segment
from warren.store.batches import DAMAGED, Batches
from warren.store.index import SegmentRows, check_index, rows_in
from warren.store.payloads import PREFIX_BYTES, payload_body_bytes, payload_names_bytes
from warren.store.records import COPY, MESSAGE, Scanner

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.recovery import JournalFiles

SALVAGE: Final = "'warren journal salvage DIR' reads what can be read"


@final
class FoundRows:
    """The rows of durable messages, by segment."""

    def __init__(self, journal: "Journal", files: "JournalFiles") -> None:
        # of the segments that were read, whose indexes are to be written
        self.read: dict[int, SegmentRows] = {}
        self._journal: Journal = journal
        self._files: JournalFiles = files

    def begin(self, number: int) -> None:
        """A segment is being read."""
        self.read[number] = SegmentRows()

    def add(self, number: int, scanner: Scanner, damaged: bool) -> None:
        """A record of a message."""
        rows = self.read[number]
        body_bytes, _cost = sizes_of(scanner, damaged)
        length: i64 = scanner.end - scanner.at
        index: i64 = 0
        while index < scanner.count:
            queue_id, position = scanner.a(index), scanner.b(index)
            if int(queue_id) in self._journal.books:
                rows.add(queue_id, position, scanner.at, length, body_bytes, scanner.priority, scanner.kind)
            index += 1

    def rows_in(self, segment: Segment, queue_ids: list[int]) -> dict[int, bytes]:
        """The rows of some queues in any segment; none if the segment is not there."""
        number = int(segment.number)
        if number not in self._files.segments():
            return {}
        if number not in self.read:
            data = self._index(number)
            if data is not None:
                return {queue_id: rows_in(data, queue_id) for queue_id in queue_ids}
            self._read(segment)
        return {queue_id: self.read[number].rows_of(queue_id) for queue_id in queue_ids}

    def replace_missing(self, segments: list[Segment]) -> None:
        """Make every index again that is needed and not there. Only whether it is there is looked at."""
        for segment in segments:
            number = int(segment.number)
            if segment.live_count > 0 and number not in self.read and not self._files.has_index(number):
                self._read(segment)

    def _index(self, number: int) -> bytes | None:
        """A sealed segment's index, if it is whole."""
        data = self._files.index(number)
        if data is None:
            return None
        try:
            check_index(data, number)
        except StoreError:
            return None
        return data

    def _read(self, segment: Segment) -> None:
        number = int(segment.number)
        self.begin(number)
        batches = Batches(self._files.segment(number), number, segment.size_bytes)
        while batches.next():
            scanner = Scanner(batches.data, number, batches.records)
            while scanner.end < batches.end and scanner.next():
                if scanner.kind in (MESSAGE, COPY):
                    self.add(number, scanner, int(scanner.at) in batches.bad_payloads)
        if batches.ending == DAMAGED:
            raise StoreError(
                f"segment {number} of the journal is damaged at byte {batches.bad}, and has no index; {SALVAGE}"
            )


def sizes_of(scanner: Scanner, damaged: bool) -> tuple[i64, i64]:
    """How long the body of a message record is, and what an entry of it costs; of a damaged one only about."""
    if damaged:
        return scanner.payload_bytes - PREFIX_BYTES, scanner.payload_bytes + ENTRY_COST_BYTES
    start: i64 = scanner.payload_start - scanner.base
    cost: i64 = scanner.payload_bytes - PREFIX_BYTES - payload_names_bytes(scanner.data, start) + ENTRY_COST_BYTES
    return payload_body_bytes(scanner.data, start), cost
