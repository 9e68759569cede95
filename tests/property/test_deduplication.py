"""Publishers that repeat messages, against a naive model: after a crash at any moment, a queue knows the ids of exactly
the messages that it kept, up to the size of its window, and the last stored offsets.

Not here: other data on disk (`test_journal`), several nodes (`tests/simulation`).
"""

from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.property.test_journal import SlowCore, drained
from tests.support.core_driver import START_MS, Client, spoken
from tests.unit.broker.journal.journal_world import persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.metadata.topology_definitions import queue_key
from warren.broker.model.effects import AppendRecords
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicReject,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)

QUEUES = ("narrow", "wide", "again")
WINDOWS = {"narrow": 3, "wide": 8, "again": 5}
PUBLISHERS = ("p", "q")
IDS = range(12)


class Remembers:
    """What a queue should have: bodies, the last ids of each publisher, offsets."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.bodies: list[bytes] = []
        self.ids: dict[str, list[int]] = {name: [] for name in PUBLISHERS}
        self.offsets: dict[str, int] = {}

    def publish(self, publisher: str, number: int, body: bytes) -> None:
        ids = self.ids[publisher]
        if number not in ids:
            self.bodies.append(body)
            self.ids[publisher] = [*ids, number][-self.width :]


class QueuesAgainstRepetition(RuleBasedStateMachine):
    """One client, on one channel."""

    @initialize()
    def start(self) -> None:
        self.disk = PlainDisk()
        self.serial = 0
        self.model = {queue: Remembers(WINDOWS[queue]) for queue in QUEUES}
        # by batch, through all lives: the model when it was ordered
        self.history: dict[int, dict[str, Remembers]] = {}
        self._live()
        self._act(spoken(ExchangeDeclare(exchange="all", type="fanout", durable=True)))
        for queue in QUEUES:
            arguments: dict[str, object] = {"x-warren-dedup-window": WINDOWS[queue]}
            if queue == "again":
                # what is rejected comes back to the end of the same queue, with all its headers
                arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "again"}
            declare = QueueDeclare(queue=queue, durable=True, arguments=arguments)
            self._act(spoken(declare, QueueBind(queue=queue, exchange="all")))
        self.core.rest()

    @rule(
        queue=st.sampled_from([*QUEUES, ""]),
        publisher=st.sampled_from(PUBLISHERS),
        numbers=st.lists(st.sampled_from(IDS), min_size=1, max_size=5),
        size=st.integers(0, 200),
    )
    def publish(self, queue: str, publisher: str, numbers: list[int], size: int) -> None:
        data = b""
        for number in numbers:
            self.serial += 1
            body = b"%d " % self.serial + b"x" * size
            for name in [queue] if queue else QUEUES:
                self.model[name].publish(publisher, number, body)
            headers: dict[str, object] = {"x-warren-publisher": publisher, "x-warren-publishing-id": number}
            data += persistent(queue, body, "" if queue else "all", headers=headers)
        self._act(data, publishes=len(numbers))

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 4), ack=st.booleans())
    def take(self, queue: str, count: int, ack: bool) -> None:
        for _ in range(count):
            self.client.say(BasicGet(queue=queue))
            self.core.rest()
            for heard in self._listen():
                if not isinstance(heard.method, BasicGetOk):
                    continue
                self.model[queue].bodies.remove(heard.body)
                if queue == "again" and not ack:
                    self.model[queue].bodies.append(heard.body)
                tag = heard.method.delivery_tag
                self._act(spoken(BasicAck(tag) if ack else BasicReject(tag, requeue=False)))

    @rule(queue=st.sampled_from(QUEUES), name=st.sampled_from("ab"), offset=st.integers(0, 1 << 40))
    def remember(self, queue: str, name: str, offset: int) -> None:
        self.model[queue].offsets[name] = offset
        self._book(self.core, queue).store_offset(name, offset)
        self.core.turn()

    @rule(count=st.integers(1, 6), tell=st.booleans())
    def the_disk_works(self, count: int, tell: bool) -> None:
        self.core.work(count)
        if tell:
            self.core.tell()
        self._listen()

    @rule()
    def time_passes(self) -> None:
        for _ in range(3):
            self.core.pass_ms(1_000)
            self.core.rest()
        self._listen()

    @rule(work=st.integers(0, 5), torn=st.integers(0, 400))
    def crash(self, work: int, torn: int) -> None:
        core, disk = self.core, self.disk
        core.work(work)
        self.model = deepcopy(self.history[len(disk.batches)])
        if core.orders and isinstance(core.orders[0], AppendRecords):
            order = core.orders[0]
            disk.change(order)
            if order.offset > 0:
                disk.write(order, min(torn, len(order.data) - 1))
        self._live()
        self._compare()

    @invariant()
    def a_queue_knows_what_it_kept(self) -> None:
        if hasattr(self, "core"):
            for queue in QUEUES:
                self._knows(self.core, queue)

    def teardown(self) -> None:
        if hasattr(self, "core"):
            self.core.rest()
            self.crash(0, 0)

    # -- between

    def _compare(self) -> None:
        core = SlowCore(self.disk.copy(), self.core.now_ms, lambda batch_no: None)
        client = core.client()
        for queue in QUEUES:
            self._knows(core, queue)
            assert drained(core, client, queue) == self.model[queue].bodies, queue

    def _knows(self, core: SlowCore, queue: str) -> None:
        book, model = self._book(core, queue), self.model[queue]
        book.seen.check()
        for publisher in PUBLISHERS:
            known = [number for number in IDS if book.seen.has((publisher.encode(), b"%d" % number))]
            assert known == sorted(model.ids[publisher]), queue
        assert book.stored_offsets() == model.offsets, queue

    def _book(self, core: SlowCore, queue: str) -> QueueIndex:
        storage = core.broker._storage
        assert storage is not None
        return storage.journal.queue_indexes[self.disk.values[queue_key("/", queue)][0]]

    def _live(self) -> None:
        self.base_no = len(self.disk.batches)
        # batches the publishes on this channel are in, in order
        self.published: list[int] = []
        self.batch_nos: list[int] = []
        self.core = SlowCore(self.disk, START_MS, self._note_batch)
        self.client: Client = self.core.client()
        self.client.say(ConfirmSelect())
        self.client.heard()

    def _note_batch(self, batch_no: int) -> None:
        self.batch_nos.append(self.base_no + batch_no)
        self.history[self.base_no + batch_no] = deepcopy(self.model)

    def _act(self, data: bytes, publishes: int = 0) -> None:
        self.batch_nos = []
        self.client.read(data)
        # a repetition is confirmed with the batch of its own turn, even an empty one
        self.published += [self.batch_nos[0]] * publishes if publishes else []
        self._listen()

    def _listen(self) -> list[ReceivedMethod]:
        """The client's confirms; every confirmed message is on disk."""
        heard = self.client.heard()
        for one in heard:
            if isinstance(one.method, BasicAck):
                assert self.published[int(one.method.delivery_tag) - 1] <= len(self.disk.batches)
        return heard


TestQueuesAgainstRepetition = QueuesAgainstRepetition.TestCase
TestQueuesAgainstRepetition.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
