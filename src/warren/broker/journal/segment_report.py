"""A report of one segment for offline commands: its batches, records and damage.

Not here: which messages are alive (`broker.journal.recovery`), the output (`cli.journal`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.batches import DAMAGED, TORN, BatchScanner
from warren.broker.journal.records import SEGMENT_HEADER_BYTES, RecordScanner, segment_header_fault, segment_incarnation

KINDS: Final = [
    "",
    "message",
    "paged",
    "copy",
    "copy paged",
    "removed",
    "horizon",
    "returned",
    "moved",
    "synced",
    "stopped",
    "remembered",
    "seen",
]


@final
class SegmentReport:
    """One segment, read from its first byte to its last batch. Damage is skipped."""

    def __init__(self, data: bytes, number: int, known_end: int, is_last: bool) -> None:
        """`known_end`: the end of the last batch according to a checkpoint; 0 if none has it."""
        self.number: int = number
        self.file_bytes: int = len(data)
        self.used_bytes: int = 0
        self.incarnation: int = 0
        self.batches: int = 0
        # the number of records of each kind
        self.kinds: dict[str, int] = {}
        self.synced: int = 0
        # offsets of damaged batches that were flushed, and of damaged messages
        self.damaged_at: list[int] = []
        # the offset of a torn tail; -1 if there is none
        self.torn_at: int = -1
        # the fault of the header, as the end of a sentence
        self.header_fault: str = segment_header_fault(data, number)
        if len(data) >= SEGMENT_HEADER_BYTES:
            self.incarnation = segment_incarnation(data)
            self._read(BatchScanner(data, number, known_end), is_last)

    def tail(self) -> str:
        """The state of the segment in a few words."""
        if self.header_fault:
            return f"{self.header_fault}, at byte 0"
        if self.damaged_at:
            return f"damaged at byte {self.damaged_at[0]}"
        return "clean" if self.torn_at < 0 else f"torn at byte {self.torn_at}"

    def sound(self) -> bool:
        return not self.damaged_at and not self.header_fault

    def _read(self, batches: BatchScanner, is_last: bool) -> None:
        while True:
            while batches.next():
                self._take(batches)
            if batches.ending != DAMAGED:
                break
            self.damaged_at.append(int(batches.bad))
            batches.step_over()
        if batches.ending == TORN and is_last:
            self.torn_at = int(batches.start)
        self.synced = int(batches.synced)

    def _take(self, batches: BatchScanner) -> None:
        self.batches += 1
        self.used_bytes = int(batches.end)
        self.damaged_at += batches.bad_payloads
        scanner = RecordScanner(batches.data, self.number, batches.start)
        while scanner.end < batches.end and scanner.next():
            kind = KINDS[scanner.kind]
            self.kinds[kind] = self.kinds.get(kind, 0) + 1


def record_lines(data: bytes, number: int, known_end: int) -> list[str]:
    """A line for every readable record: offset, kind and triples."""
    lines: list[str] = []
    batches = BatchScanner(data, number, known_end)
    while True:
        while batches.next():
            scanner = RecordScanner(data, number, batches.start)
            while scanner.end < batches.end and scanner.next():
                lines.append(_line(scanner, int(scanner.at) in batches.bad_payloads))
        if batches.ending != DAMAGED:
            return lines
        lines.append(f"{int(batches.bad):>10} damaged")
        batches.step_over()


def _line(scanner: RecordScanner, damaged: bool) -> str:
    triples: list[str] = []
    index: i64 = 0
    while index < scanner.count and index < 8:
        triples.append(f"({scanner.a(index)}, {scanner.b(index)}, {scanner.c(index)})")
        index += 1
    if scanner.count > index:
        triples.append(f"and {scanner.count - index} more")
    words = [f"{int(scanner.at):>10}", f"{KINDS[scanner.kind]:<10}", " ".join(triples)]
    if scanner.payload_bytes > 0:
        words.append(f"priority={scanner.priority} payload_bytes={scanner.payload_bytes}")
    if damaged:
        words.append("damaged")
    return " ".join(words)
