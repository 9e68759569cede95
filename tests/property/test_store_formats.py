"""The formats of the store against plain models: a list of records, a set of positions, a dict of rows."""

from collections import defaultdict

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from librt.strings import BytesWriter

from warren.broker.journal import payloads, records, segment_index
from warren.broker.journal.checkpoint import decode_checkpoint
from warren.broker.journal.records import RecordScanner
from warren.broker.journal.removed_positions import RemovedPositions, decode_removed
from warren.broker.model.message import Envelope, Message
from warren.errors import StoreError

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
U32 = st.integers(0, (1 << 32) - 1)
TRIPLES = st.lists(st.tuples(I64, I64, I64), max_size=5)
NAMES = st.binary(max_size=40).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
SEGMENTS = st.integers(1, 1 << 40)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    content = draw(st.binary(max_size=300))
    return Message(
        Envelope(draw(NAMES), draw(NAMES), draw(st.lists(NAMES, max_size=3))),
        content,
        draw(st.integers(0, 65_535)),
        draw(st.integers(0, len(content))),
        draw(U32),
        draw(st.booleans()),
        draw(st.integers(0, 255)),
        draw(I64),
    )


def facts(message: Message) -> tuple[object, ...]:
    envelope = message.envelope
    names = (envelope.exchange, envelope.routing_key, envelope.copy_keys)
    numbers = (message.channel, message.body_bytes, message.frame_bytes_max, message.priority, message.expiration_ms)
    return (*names, message.content, *numbers, message.persistent)


@given(SEGMENTS, st.lists(st.tuples(TRIPLES, st.none() | messages()), max_size=6), st.integers(0, 2000))
def test_a_segment_cut_anywhere_gives_back_the_records_before_the_cut(
    segment: int, wanted: list[tuple[list[tuple[int, int, int]], Message | None]], cut: int
) -> None:
    out = BytesWriter()
    ends = []
    for triples, message in wanted:
        packed = b"".join(number.to_bytes(8, "big", signed=True) for triple in triples for number in triple)
        if message is None:
            records.write_mark(out, segment, records.REMOVED, 0, packed, len(triples))
        else:
            records.write_message_record(out, segment, records.MESSAGE, packed, len(triples), message)
        ends.append(len(out))
    data = out.getvalue()[:cut]
    scanner = RecordScanner(data, segment, 0)
    whole = [pair for pair, end in zip(wanted, ends, strict=True) if end <= cut]
    for triples, message in whole:
        assert scanner.next()
        assert scanner.intact()
        assert [(scanner.a(i), scanner.b(i), scanner.c(i)) for i in range(scanner.count)] == triples
        if message is None:
            assert (scanner.kind, scanner.payload_bytes) == (records.REMOVED, 0)
        else:
            decoded = payloads.decode_message(scanner.payload(), scanner.priority, message.persistent)
            assert facts(decoded) == facts(message)
    assert not scanner.next()
    assert scanner.at == (ends[len(whole) - 1] if whole else 0)
    assert scanner.complete == (scanner.at == len(data))


@given(st.binary(max_size=400), SEGMENTS, st.integers(0, 50))
def test_random_bytes_are_not_taken_for_a_record(data: bytes, segment: int, at: int) -> None:
    assert not RecordScanner(data, segment, min(at, len(data))).next()
    assert records.synced_after(data, segment, at) == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        message = payloads.decode_message(data, 0, True)
    except StoreError:
        pass
    else:
        assert data.endswith(message.content)
    try:
        removed, after = decode_removed(data, 0)
    except StoreError:
        pass
    else:
        assert after <= len(data)
        assert removed.has(removed.floor - 1)
    for refusal in (decode_checkpoint, segment_index.directory_bytes):
        try:
            refusal(data)
        except StoreError:
            continue
        raise AssertionError(f"{refusal.__name__} took {data!r}")


ROW = st.tuples(st.integers(-3, 3), st.integers(1, 1 << 62), U32, U32, U32, st.integers(0, 255), st.integers(1, 4))


@given(st.lists(ROW, max_size=30, unique_by=lambda row: row[:2]), st.integers(1, 1 << 62))
def test_an_index_is_a_dict_of_sorted_rows(rows: list[tuple[int, int, int, int, int, int, int]], wanted: int) -> None:
    kept = segment_index.SegmentIndex()
    model: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for queue_id, *row in rows:
        kept.add(queue_id, row[0], row[1], row[2], row[3], row[4], row[5])
        model[queue_id].append(tuple(row))
    data = kept.encode(5)
    segment_index.check_index(data, 5)
    assert kept.count == len(rows)
    assert segment_index.queue_ids(data) == sorted(model)
    for queue_id in range(-4, 5):
        found = kept.rows_of(queue_id)
        assert segment_index.rows_in(data, queue_id) == found
        assert [row_at(found, i) for i in range(len(found) // 24)] == sorted(model.get(queue_id, []))
        below = sum(position < wanted for position, *_ in model.get(queue_id, []))
        assert segment_index.first_row_from(found, wanted) == below


def row_at(rows: bytes, i: int) -> tuple[int, ...]:
    return (
        segment_index.row_position(rows, i),
        segment_index.row_offset(rows, i),
        segment_index.row_length(rows, i),
        segment_index.row_body_bytes(rows, i),
        segment_index.row_priority(rows, i),
        segment_index.row_kind(rows, i),
    )


# few enough that positions meet, and enough for several bitmaps
POSITION = st.one_of(st.integers(1, 12), st.integers(4090, 4102), st.integers(1, 14_000))
LENGTH = st.sampled_from([0, 1, 7, 8, 4095, 4096, 4097, 9000])


class RemovedAgainstSet(RuleBasedStateMachine):
    """A `RemovedPositions` does as a plain set of positions does."""

    def __init__(self) -> None:
        super().__init__()
        self.removed = RemovedPositions()
        self.model: set[int] = {0}

    @rule(position=POSITION)
    def add(self, position: int) -> None:
        self.removed.add(position)
        self.model.add(position)

    @rule(ahead=st.sampled_from([0, 0, 1]))
    def add_at_the_floor(self, ahead: int) -> None:
        self.add(int(self.removed.floor) + ahead)

    @rule(first=POSITION, length=LENGTH)
    def add_range(self, first: int, length: int) -> None:
        self.removed.add_range(first, first + length - 1)
        self.model.update(range(first, first + length))

    @rule(length=LENGTH)
    def add_range_at_the_floor(self, length: int) -> None:
        self.add_range(int(self.removed.floor), length)

    @rule(to=POSITION)
    def raise_floor(self, to: int) -> None:
        self.removed.raise_floor(to)
        self.model.update(range(to))

    @rule(position=POSITION)
    def revive(self, position: int) -> None:
        self.removed.revive(position)
        self.model.discard(position)

    @rule()
    def write_and_read(self) -> None:
        out = BytesWriter()
        self.removed.encode(out)
        self.removed, after = decode_removed(out.getvalue(), 0)
        assert after == len(out)

    @invariant()
    def the_floor_is_the_first_that_is_not_gone(self) -> None:
        floor = int(self.removed.floor)
        assert floor not in self.model
        assert self.model.issuperset(range(floor))

    @invariant()
    def nothing_is_held_without_a_removal_above_the_floor(self) -> None:
        self.removed.check()
        assert (self.removed.bytes_held() == 0) == (max(self.model) < self.removed.floor)

    def teardown(self) -> None:
        for position in range(max(self.model) + 4100):
            assert self.removed.has(position) == (position in self.model)


TestRemovedAgainstSet = RemovedAgainstSet.TestCase
TestRemovedAgainstSet.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
