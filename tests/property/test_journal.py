"""A broker and its disk against a naive model: after any history and a crash at any moment, every batch counts as a
whole, and confirmed messages are there.

The state machine decides when the disk carries out orders and when it reports them; a crash leaves a prefix of the
orders, the last of them perhaps torn. After a crash the model is what it was when the last whole batch was ordered.

Not here: what recovery makes of damage (`tests/unit/store`), a world of clients and time (`tests/simulation`).
"""

from collections import Counter, deque
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.core_driver import START_MS, Client, Core, spoken
from tests.unit.broker.journal.journal_world import READS, WRITES, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.broker import Broker
from warren.broker.metadata.topology_definitions import queue_key
from warren.broker.model.effects import AppendRecords, Effect
from warren.broker.model.events import Event, FlushCompleted
from warren.broker.model.settings import BrokerSettings
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)

SEGMENT_BYTES = 1_500
QUEUES = ("plain", "urgent", "lazy", "limited")
ARGUMENTS: dict[str, Table] = {
    "urgent": {"x-max-priority": 2},
    "lazy": {"x-queue-mode": "lazy"},
    "limited": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain"},
}

Contents = dict[str, list[tuple[int, bytes]]]
"""Of each queue that exists, the priority and the body of its messages, in the order they came."""


class SlowCore(Core):
    """A core with a disk that does nothing by itself. `stored` gets the number of every ordered batch."""

    def __init__(self, disk: PlainDisk, now_ms: int, stored: Callable[[int], None]) -> None:
        super().__init__(BrokerSettings())
        self.now_ms = now_ms
        self.disk = disk
        self.orders: deque[Effect] = deque()
        self.reads: deque[Effect] = deque()
        self._stored = stored
        self._reported_no = 0
        self._done_no = 0
        found = disk.found(now_ms)
        self.broker = Broker(BrokerSettings(segment_bytes=SEGMENT_BYTES), seed=b"x", found=found)
        self.turn()
        self.rest()

    def _carry_out(self, effect: Effect) -> None:
        super()._carry_out(effect)
        if isinstance(effect, WRITES):
            self.orders.append(effect)
            if isinstance(effect, AppendRecords):
                self._stored(effect.batch_no)
        elif isinstance(effect, READS):
            self.reads.append(effect)

    def work(self, count: int) -> None:
        """The disk carries out so many orders."""
        for _ in range(min(count, len(self.orders))):
            order = self.orders.popleft()
            self.disk.carry_out(order)
            if isinstance(order, AppendRecords):
                self._done_no = order.batch_no

    def tell(self) -> None:
        """The disk reports completed orders, and answers reads."""
        events: list[Event] = []
        if self._done_no > self._reported_no:
            self._reported_no = self._done_no
            events.append(FlushCompleted(self._reported_no, self._reported_no))
        while self.reads:
            answer = self.disk.read(self.reads.popleft())
            assert answer is not None
            events.append(answer)
        self.turn(*events)

    def rest(self) -> None:
        """Everything ordered is done and told, until nothing is left to do."""
        while self.orders or self.reads or self._done_no > self._reported_no or 0 < self.timer_at_ms <= self.now_ms:
            self.work(len(self.orders))
            self.tell()


class BrokerAndDiskAgainstLists(RuleBasedStateMachine):
    """Publisher and consumer are one client on one channel."""

    @initialize()
    def start(self) -> None:
        self.disk = PlainDisk()
        self.now_ms = START_MS
        self.serial = 0
        # by batch, through all lives: the model when it was ordered
        self.history: dict[int, Contents] = {}
        self.model: Contents = {}
        self._live()
        self._act(spoken(ExchangeDeclare(exchange="all", type="fanout", durable=True)))
        for queue in QUEUES:
            self._declare(queue)
        self.core.rest()

    # -- what clients do

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 4), priority=st.integers(0, 3), size=st.integers(0, 300))
    def publish(self, queue: str, count: int, priority: int, size: int) -> None:
        bodies = [self._body(size) for _ in range(count)]
        self.model[queue] += [(priority, body) for body in bodies]
        self._act(b"".join(persistent(queue, body, priority=priority) for body in bodies), publishes=count)

    @rule(priority=st.integers(0, 3))
    def publish_to_all(self, priority: int) -> None:
        body = self._body(50)
        for contents in self.model.values():
            contents.append((priority, body))
        self._act(persistent("", body, "all", priority=priority), publishes=1)

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 5))
    def get(self, queue: str, count: int) -> None:
        for _ in range(count):
            at_once = self._act(spoken(BasicGet(queue=queue)))
            self.core.rest()
            for heard in at_once + self._listen():
                if isinstance(heard.method, BasicGetOk):
                    self.unacked[int(heard.method.delivery_tag)] = (queue, heard.body)

    @precondition(lambda self: self.unacked)
    @rule(data=st.data(), how=st.sampled_from(["ack", "ack", "ack", "nack", "reject"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        tag = data.draw(st.sampled_from(sorted(self.unacked)))
        queue, body = self.unacked.pop(tag)
        if how == "nack":
            self._act(spoken(BasicNack(tag)))
            return
        priority = next(priority for priority, other in self.model[queue] if other == body)
        self.model[queue].remove((priority, body))
        if how == "reject" and queue == "limited":
            self.model["plain"].append((priority, body))
        self._act(spoken(BasicAck(tag) if how == "ack" else BasicReject(tag, requeue=False)))

    @rule(queue=st.sampled_from(QUEUES))
    def purge(self, queue: str) -> None:
        held = Counter(body for of, body in self.unacked.values() if of == queue)
        kept = []
        for priority, body in self.model[queue]:
            if held[body] > 0:
                held[body] -= 1
                kept.append((priority, body))
        self.model[queue] = kept
        self._act(spoken(QueuePurge(queue=queue)))

    @rule(queue=st.sampled_from(["lazy", "urgent"]))
    def delete_and_declare(self, queue: str) -> None:
        del self.model[queue]
        self.unacked = {tag: one for tag, one in self.unacked.items() if one[0] != queue}
        self._act(spoken(QueueDelete(queue=queue)))
        self._declare(queue)

    # -- what the disk does

    @rule(count=st.integers(1, 6), tell=st.booleans())
    def the_disk_works(self, count: int, tell: bool) -> None:
        self.core.work(count)
        if tell:
            self.core.tell()
        self._listen()

    @rule(ms=st.sampled_from([10, 1_000, 5_000]))
    def time_passes(self, ms: int) -> None:
        for _ in range(3):
            self.core.pass_ms(ms)
            self.core.rest()
        self.now_ms = self.core.now_ms
        self._listen()

    @rule(work=st.integers(0, 5), torn=st.integers(0, 400))
    def crash(self, work: int, torn: int) -> None:
        core, disk = self.core, self.disk
        core.work(work)
        survived = len(disk.batches)
        self.model = {queue: list(contents) for queue, contents in self.history[survived].items()}
        before = self._ids()
        if core.orders and isinstance(core.orders[0], AppendRecords):
            order = core.orders[0]
            disk.change(order)
            if order.offset > 0:
                disk.write(order, min(torn, len(order.data) - 1))
        after = self._ids()
        for queue in QUEUES:
            if queue not in after:
                self.model.pop(queue, None)
            elif after[queue] != before.get(queue):
                self.model[queue] = []
        self._live()
        self._compare()
        for queue in QUEUES:
            if queue not in self.model:
                self._declare(queue)

    @invariant()
    def nothing_contradicts_itself(self) -> None:
        if hasattr(self, "core"):
            self.core.broker.check()

    def teardown(self) -> None:
        if hasattr(self, "core"):
            self.core.rest()
            self.crash(0, 0)

    # -- between

    def _compare(self) -> None:
        """A node on a copy of the disk delivers exactly the model's messages, in order."""
        core = SlowCore(self.disk.copy(), self.now_ms, lambda batch_no: None)
        client = core.client()
        for queue, contents in self.model.items():
            top = 2 if queue == "urgent" else 0
            wanted = [body for _, body in sorted(contents, key=lambda one, top=top: -min(one[0], top))]  # type: ignore[misc]
            assert drained(core, client, queue) == wanted, queue

    def _ids(self) -> dict[str, int]:
        keys = {queue: queue_key("/", queue) for queue in QUEUES}
        return {queue: self.disk.values[key][0] for queue, key in keys.items() if key in self.disk.values}

    def _live(self) -> None:
        self.base_no = len(self.disk.batches)
        self.unacked: dict[int, tuple[str, bytes]] = {}
        # batches the publishes on this channel are in, in order
        self.published: list[int] = []
        self.batch_nos: list[int] = []
        self.core = SlowCore(self.disk, self.now_ms, self._note_batch)
        self.client: Client = self.core.client()
        self.client.say(ConfirmSelect())
        self.client.heard()

    def _note_batch(self, batch_no: int) -> None:
        self.batch_nos.append(self.base_no + batch_no)
        self.history[self.base_no + batch_no] = {queue: list(contents) for queue, contents in self.model.items()}

    def _act(self, data: bytes, publishes: int = 0) -> list[ReceivedMethod]:
        self.batch_nos = []
        self.client.read(data)
        # others may follow in the same turn, when the journal rolls
        self.published += [self.batch_nos[0]] * publishes if publishes else []
        return self._listen()

    def _listen(self) -> list[ReceivedMethod]:
        """The client's confirms; every confirmed message is on disk."""
        heard = self.client.heard()
        for one in heard:
            if isinstance(one.method, BasicAck):
                assert self.published[int(one.method.delivery_tag) - 1] <= len(self.disk.batches)
        return heard

    def _declare(self, queue: str) -> None:
        self.model[queue] = []
        declare = QueueDeclare(queue=queue, durable=True, arguments=ARGUMENTS.get(queue, {}))
        self._act(spoken(declare, QueueBind(queue=queue, exchange="all")))

    def _body(self, size: int) -> bytes:
        self.serial += 1
        return b"%d " % self.serial + b"x" * size


def drained(core: SlowCore, client: Client, queue: str) -> list[bytes]:
    bodies = []
    while True:
        client.say(BasicGet(queue=queue))
        core.rest()
        heard = [one for one in client.heard() if not isinstance(one.method, BasicAck)]
        if not isinstance(heard[0].method, BasicGetOk):
            return bodies
        bodies.append(heard[0].body)
        client.say(BasicAck(heard[0].method.delivery_tag))


TestBrokerAndDiskAgainstLists = BrokerAndDiskAgainstLists.TestCase
TestBrokerAndDiskAgainstLists.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
