"""Bugs to plant between a node and its disk.

Not here: bugs between a node and its clients (`plants`), which rule must catch which (`test_planted_bugs`).
"""

from zlib import crc32

from warren.broker.journal.records import SEGMENT_HEADER_BYTES
from warren.broker.model.effects import AppendRecords, DropSegments, Effect, SealSegment, StopNode
from warren.broker.model.events import Event, FlushCompleted
from warren.broker.model.journal import MetadataChange
from warren.sim.process import Interceptor


class EarlyReports(Interceptor):
    """Every batch is reported as flushed when it is ordered."""

    def __init__(self) -> None:
        self._ordered_no = 0
        self._written_no = 0

    def events(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, FlushCompleted):
                self._written_no = event.written_no
        return [*events, FlushCompleted(self._written_no, self._ordered_no)]

    def effects(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                if effect.batch_no == 1:
                    self._written_no = 0
                self._ordered_no = effect.batch_no
        return effects


class SwappedBatches(Interceptor):
    """Of two batches for one segment the later goes to the disk first."""

    def __init__(self) -> None:
        self._held: AppendRecords | None = None

    def effects(self, effects: list[Effect]) -> list[Effect]:
        passed: list[Effect] = []
        if any(isinstance(effect, AppendRecords) and effect.batch_no == 1 for effect in effects):
            # the node was restarted: the held batch is lost with it
            self._held = None
        for effect in effects:
            if isinstance(effect, AppendRecords) and self._held is None and effect.offset and not effect.changes:
                self._held = effect
                continue
            passed.append(effect)
            if self._held is not None and isinstance(effect, AppendRecords | SealSegment | StopNode):
                place = len(passed) - (0 if isinstance(effect, AppendRecords) else 1)
                passed.insert(place, self._held)
                self._held = None
        return passed


class AnotherName(Interceptor):
    """A queue is written down under a name that is not its own."""

    def effects(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                effect.changes = [
                    MetadataChange(change.revision, change.key.replace("/plain", "/plaim"), change.value)
                    if change.key.startswith("queues/")
                    else change
                    for change in effect.changes
                ]
        return effects


class NothingDropped(Interceptor):
    """Segments that are not needed stay."""

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return [effect for effect in effects if not isinstance(effect, DropSegments)]


class OtherKind(Interceptor):
    """Every record of one kind is written as if it were of another."""

    def __init__(self, kind: int, instead: int) -> None:
        self._kind = kind
        self._instead = instead

    def effects(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                effect.data = self._rewritten(effect)
        return effects

    def _rewritten(self, store: AppendRecords) -> bytes:
        data = bytearray(store.data)
        at = int(SEGMENT_HEADER_BYTES) if store.offset == 0 else 0
        while at < len(data):
            header_bytes = int.from_bytes(data[at + 4 : at + 8], "big")
            payload_bytes = int.from_bytes(data[at + 8 : at + 12], "big")
            if data[at + 16] == self._kind:
                data[at + 16] = self._instead
                checksum = crc32(data[at + 4 : at + header_bytes], store.segment)
                data[at : at + 4] = checksum.to_bytes(4, "big")
            at += header_bytes + payload_bytes
        return bytes(data)
