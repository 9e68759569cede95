"""Confirms of messages for queues on several nodes: one answer for each, and an ack only when all disks have it."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.core_driver import published
from tests.unit.broker.links.linked import LinkedCore, Together
from tests.unit.broker.sessions.journalled import PERSISTENT
from warren.wire.methods import BasicAck, BasicNack

HOMES = {"l": "here", "m": "here", "a": "there", "b": "yonder", "full": "there"}
DURABLE = ("l", "a", "b")


class Confirmed(RuleBasedStateMachine):
    """A publisher, three disks, and links that may be lost."""

    @initialize()
    def begin(self) -> None:
        self.nodes = Together("here", "there", "yonder", flushes=False)
        self.client = self.nodes.client("here")
        for name, home in HOMES.items():
            arguments = {"x-max-length": 0, "x-overflow": "reject-publish"} if name == "full" else {}
            self.nodes.place(name, home, arguments, durable=name in DURABLE)
            self.client.bind(name, "amq.topic", f"#.{name}.#")
        self.client.confirm()
        self.nodes.settle()
        # what each publish was for, and how it was answered
        self.queues: list[set[str]] = []
        self.answers: dict[int, type] = {}
        # what was stored when each batch that is not flushed was ordered; what is flushed
        self.ordered: dict[str, list[set[bytes]]] = {name: [] for name in self.nodes.cores}
        self.flushed: dict[str, set[bytes]] = {name: set() for name in self.nodes.cores}
        self.lost = False

    @rule(batch=st.lists(st.sets(st.sampled_from(sorted(HOMES)), min_size=1), min_size=1, max_size=5))
    def publish(self, batch: list[set[str]]) -> None:
        data = b""
        for queues in batch:
            self.queues.append(queues)
            body = b"%d" % len(self.queues)
            data += published(".".join(sorted(queues)), body, "amq.topic", PERSISTENT)
        self.client.read(data)
        self._look()

    @rule()
    def carry(self) -> None:
        self.nodes.step()
        self._look()

    @rule(name=st.sampled_from(["here", "there", "yonder"]))
    def flush(self, name: str) -> None:
        if self.nodes[name].batches:
            self.flushed[name] |= self.ordered[name].pop(0)
            self.nodes[name].flush()
            self._look()

    @rule(name=st.sampled_from(["there", "yonder"]))
    def lose_and_mend(self, name: str) -> None:
        self.lost = True
        self.nodes.cut_link("here", name)
        self.nodes.link("here", name)
        self._look()

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        for _ in range(100):
            self.carry()
            for name in self.nodes.cores:
                self.flush(name)
        assert sorted(self.answers) == list(range(1, len(self.queues) + 1))
        for number, queues in enumerate(self.queues, 1):
            if "full" in queues:
                assert self.answers[number] is BasicNack
            elif not self.lost:
                assert self.answers[number] is BasicAck

    def _look(self) -> None:
        for name, core in self.nodes.cores.items():
            while len(self.ordered[name]) < len(core.batches):
                self.ordered[name].append(stored(core))
        for method in self.client.methods():
            assert isinstance(method, BasicAck | BasicNack)
            numbers = [method.delivery_tag]
            if method.multiple:
                numbers = [number for number in range(1, method.delivery_tag + 1) if number not in self.answers]
            for number in numbers:
                assert number not in self.answers
                self.answers[number] = type(method)
                if isinstance(method, BasicAck):
                    self._check_safe(number)

    def _check_safe(self, number: int) -> None:
        for queue in self.queues[number - 1] & set(DURABLE):
            assert b"%d" % number in self.flushed[HOMES[queue]], f"publish {number} is not on the disk of {queue}"


def stored(core: LinkedCore) -> set[bytes]:
    return {message.body() for log in core.logs.opened for message, _holding in log._stored.values()}


TestConfirmed = Confirmed.TestCase
TestConfirmed.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
