"""Bugs to plant between a node and its disk.

Not here: bugs between a node and its clients (`plants`), which rule must catch which (`test_planted_bugs`).
"""

from zlib import crc32

from warren.model.effects import DropSegments, Effect, Seal, StopNode, Store
from warren.model.events import Event, Stored
from warren.model.journal import Change
from warren.sim.process import Meddler
from warren.store.records import SEGMENT_HEADER_BYTES


class EarlyReports(Meddler):
    """Every batch is reported as flushed when it is ordered."""

    def __init__(self) -> None:
        self._ordered_no = 0
        self._written_no = 0

    def events(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Stored):
                self._written_no = event.written_no
        return [*events, Stored(self._written_no, self._ordered_no)]

    def effects(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Store):
                if effect.batch_no == 1:
                    self._written_no = 0
                self._ordered_no = effect.batch_no
        return effects


class SwappedBatches(Meddler):
    """Of two batches for one segment the later goes to the disk first."""

    def __init__(self) -> None:
        self._held: Store | None = None

    def effects(self, effects: list[Effect]) -> list[Effect]:
        passed: list[Effect] = []
        if any(isinstance(effect, Store) and effect.batch_no == 1 for effect in effects):
            # another life: what was held back died with the node
            self._held = None
        for effect in effects:
            if isinstance(effect, Store) and self._held is None and effect.offset and not effect.changes:
                self._held = effect
                continue
            passed.append(effect)
            if self._held is not None and isinstance(effect, Store | Seal | StopNode):
                place = len(passed) - (0 if isinstance(effect, Store) else 1)
                passed.insert(place, self._held)
                self._held = None
        return passed


class AnotherName(Meddler):
    """A queue is written down under a name that is not its own."""

    def effects(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Store):
                effect.changes = [
                    Change(change.revision, change.key.replace("/plain", "/plaim"), change.value)
                    if change.key.startswith("queues/")
                    else change
                    for change in effect.changes
                ]
        return effects


class NothingDropped(Meddler):
    """Segments that nobody needs stay."""

    def effects(self, effects: list[Effect]) -> list[Effect]:
        return [effect for effect in effects if not isinstance(effect, DropSegments)]


class OtherKind(Meddler):
    """Every record of one kind is written as if it were of another."""

    def __init__(self, kind: int, instead: int) -> None:
        self._kind = kind
        self._instead = instead

    def effects(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Store):
                effect.data = self._rewritten(effect)
        return effects

    def _rewritten(self, store: Store) -> bytes:
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
