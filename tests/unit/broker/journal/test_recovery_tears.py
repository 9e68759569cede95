"""A power loss while batches are written over allocated space: every unflushed sector has its old or its new bytes, in
any combination. The batches before the first torn one survive, and nothing else does.

Not here: a file that ends too soon (`test_recovery_cuts`), flushed bytes that changed (`test_recovery_flips`).
"""

from itertools import product

import pytest

from tests.support.core_driver import spoken
from tests.unit.broker.journal.journal_world import DurableCore, Recovered, expected, get, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk, Written, segment_name
from tests.unit.broker.journal.sample import rich_sample
from warren.broker.model.effects import AppendRecords, Effect
from warren.errors import StoreError
from warren.wire.methods import BasicAck, QueueDeclare

SECTOR_BYTES = 512
ROOM_BYTES = 8192
NAME = segment_name(1)


class UntoldCore(DurableCore):
    """A core that can be kept from hearing of flushes."""

    telling = True

    def _carry_out(self, effect: Effect) -> None:
        super()._carry_out(effect)
        if isinstance(effect, AppendRecords) and not self.telling:
            self._answers.pop()


class Scene:
    """A segment with some flushed batches, and several that are only written."""

    def __init__(self) -> None:
        core = UntoldCore(PlainDisk())
        client = core.client()
        client.read(spoken(QueueDeclare(queue="a", durable=True), QueueDeclare(queue="b", durable=True)))
        client.read(persistent("a", b"acked") + persistent("a", b"flushed") + persistent("b", b"f" * 700))
        client.heard()
        tag = get(client, "a")[0]
        self.certain_no = len(core.disk.batches)
        core.telling = False
        client.read(persistent("a", b"short"))
        client.say(BasicAck(tag))
        client.read(persistent("b", b"l" * 1900))
        client.read(persistent("a", b"one") + persistent("b", b"t" * 900))
        client.read(persistent("a", b"z" * 600))
        self.disk = core.disk

    def batches(self) -> list[Written]:
        return self.disk.batches[self.certain_no :]

    def sectors(self) -> range:
        """The sectors with unflushed bytes."""
        first, last = self.batches()[0].offset, self.batches()[-1].end
        return range(first // SECTOR_BYTES, (last - 1) // SECTOR_BYTES + 1)

    def torn(self, room: bytes, arrived: tuple[bool, ...]) -> bytes:
        """The file if only these sectors were written."""
        written = self.disk.files[NAME] + room[len(self.disk.files[NAME]) :]
        before = self.disk.files[NAME][: self.batches()[0].offset] + room[self.batches()[0].offset :]
        content = bytearray(before)
        for sector, is_new in zip(self.sectors(), arrived, strict=True):
            at = sector * SECTOR_BYTES
            content[at : at + SECTOR_BYTES] = (written if is_new else before)[at : at + SECTOR_BYTES]
        return bytes(content)

    def last_whole(self, content: bytes) -> Written:
        """The last batch before the first damaged one."""
        whole = self.disk.batches[self.certain_no - 1]
        for batch in self.batches():
            if content[batch.offset : batch.end] != self.disk.files[NAME][batch.offset : batch.end]:
                break
            whole = batch
        return whole


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


@pytest.fixture(scope="module", params=["zeros", "the leavings of another segment"])
def room(request: pytest.FixtureRequest) -> bytes:
    """The old bytes of the file."""
    if request.param == "zeros":
        return bytes(ROOM_BYTES)
    other = rich_sample(ROOM_BYTES).disk
    return other.files[segment_name(other.segments()[-2])].ljust(ROOM_BYTES, b"\0")[:ROOM_BYTES]


def test_unflushed_batches_are_not_claimed_as_flushed(scene: Scene) -> None:
    assert len(scene.batches()) == 5
    assert 8 <= len(scene.sectors()) <= 10


@pytest.mark.lengthy
def test_with_any_sectors_lost_the_batches_before_the_first_torn_one_survive(scene: Scene, room: bytes) -> None:
    seen = set()
    for arrived in product((False, True), repeat=len(scene.sectors())):
        disk = scene.disk.copy()
        disk.files[NAME] = content = scene.torn(room, arrived)
        whole = scene.last_whole(content)
        seen.add(whole.end)
        # a second start finds the same
        for _ in range(2):
            recovered = Recovered(disk).start()
            assert (recovered.recovery.faults, recovered.recovery.stopped) == ([], {})
            assert recovered.contents() == expected(disk, whole.truth.queues, recovered.names)
        assert len(disk.files[NAME]) == whole.end
    assert len(seen) == 1 + len(scene.batches())


def test_a_sector_that_was_flushed_and_is_lost_is_damage_all_the_same(scene: Scene, room: bytes) -> None:
    """An unflushed batch says how much was flushed before it."""
    flushed = range(scene.batches()[0].offset // SECTOR_BYTES)
    assert len(flushed) >= 2
    for sector in flushed:
        begin, end = sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES
        content = scene.torn(room, (True,) * len(scene.sectors()))
        disk = scene.disk.copy()
        disk.files[NAME] = content[:begin] + room[begin:end] + content[end:]
        assert damage_found(disk), sector


def damage_found(disk: PlainDisk) -> bool:
    """Whether the node does not start, or stops a queue."""
    try:
        return bool(Recovered(disk).recovery.stopped)
    except StoreError as refusal:
        return "segment 1 of the journal is" in str(refusal)
