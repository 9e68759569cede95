"""What must hold after every step. Each rule is an object that is shown what happens and says what is wrong with it.

A run stops at the first complaint: what follows a broken rule proves nothing.

Not here: what must hold at the end (`sim.validations`), how it is known what happened (`sim.witness`).
"""

from typing import TYPE_CHECKING

from warren.model.ports import QueuePort
from warren.queue.queue import Queue
from warren.sim.history import FORGOTTEN, GONE, OUT, REFUSED, WITHDRAWN, Attempt
from warren.sim.outcome import Complaint
from warren.wire.properties import decode_properties

if TYPE_CHECKING:
    from warren.sim.channel_book import ChannelBook, Delivery, Promise
    from warren.sim.node import Node
    from warren.sim.world import World

OUTPUT_BUDGET_BYTES = 1024 * 1024
ENTRY_BYTES = 256


class Checker:
    """One rule; a subclass looks at what concerns it. Each method answers what is wrong, or nothing."""

    rule = ""

    def delivered(self, delivery: "Delivery") -> str:
        return ""

    def answered(self, channel: "ChannelBook", publish_no: int, multiple: bool) -> str:
        return ""

    def settled(self, attempt: Attempt) -> str:
        return ""

    def promised(self, promise: "Promise", on_disk_no: int) -> str:
        return ""

    def recovered(self, node: "Node") -> str:
        return ""

    def returned(self, attempt: Attempt | None) -> str:
        return ""

    def turned(self, node: "Node") -> str:
        return ""

    def ended(self, world: "World") -> str:
        return ""

    def rested(self, world: "World") -> str:
        return ""


class Checkers:
    """All rules in force, and what they had to complain about."""

    def __init__(self, members: list[Checker]) -> None:
        self.members = members
        self.complaints: list[Complaint] = []

    def complain(self, rule: str, text: str) -> None:
        self.complaints.append(Complaint(rule, text))

    def delivered(self, delivery: "Delivery") -> None:
        for member in self.members:
            self._hear(member, member.delivered(delivery))

    def answered(self, channel: "ChannelBook", publish_no: int, multiple: bool) -> None:
        for member in self.members:
            self._hear(member, member.answered(channel, publish_no, multiple))

    def settled(self, attempt: Attempt) -> None:
        for member in self.members:
            self._hear(member, member.settled(attempt))

    def promised(self, promise: "Promise", on_disk_no: int) -> None:
        for member in self.members:
            self._hear(member, member.promised(promise, on_disk_no))

    def recovered(self, node: "Node") -> None:
        for member in self.members:
            self._hear(member, member.recovered(node))

    def returned(self, attempt: Attempt | None) -> None:
        for member in self.members:
            self._hear(member, member.returned(attempt))

    def turned(self, node: "Node") -> None:
        for member in self.members:
            self._hear(member, member.turned(node))

    def ended(self, world: "World") -> None:
        for member in self.members:
            self._hear(member, member.ended(world))

    def rested(self, world: "World") -> None:
        for member in self.members:
            self._hear(member, member.rested(world))

    def _hear(self, member: Checker, text: str) -> None:
        if text:
            self.complain(member.rule, text)


class NodeChecksItself(Checker):
    """The node does not contradict itself, and holds at least the memory its messages need."""

    rule = "the node checks itself"

    def turned(self, node: "Node") -> str:
        try:
            node.broker.check()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        least = 0
        for queue in node.broker.vhosts["/"].topology.queues.values():
            count = queue.ready_count() - paged_count(queue) + queue.unacked_count()
            least += count * ENTRY_BYTES
        held = node.broker.turn.held_bytes
        return f"{held} bytes are held, less than the {least} its entries need" if held < least else ""


class BoundedBuffers(Checker):
    """A client that does not read costs a bounded amount of memory."""

    rule = "bounded buffers"

    def turned(self, node: "Node") -> str:
        for link in node.links.values():
            if link.buffered_bytes() > link.high_water_bytes + 2 * OUTPUT_BUDGET_BYTES:
                return f"{link.buffered_bytes()} bytes wait for connection #{link.number}"
        return ""

    def delivered(self, delivery: "Delivery") -> str:
        return f"{delivery}, whose writes are paused" if delivery.pushed_while_paused else ""


class DenseTags(Checker):
    """Delivery tags of a channel count 1, 2, 3."""

    rule = "dense delivery tags"

    def delivered(self, delivery: "Delivery") -> str:
        expected = delivery.channel.next_tag
        return f"{delivery}, where {expected} follows" if delivery.tag != expected else ""


class WithinPrefetch(Checker):
    """No more is unacked than was asked for."""

    rule = "unacked within prefetch"

    def delivered(self, delivery: "Delivery") -> str:
        consumer, channel = delivery.consumer, delivery.channel
        if consumer is None or delivery.no_ack or channel.gives_back():
            return ""
        if consumer.prefetch and consumer.unacked >= consumer.prefetch:
            return f"{delivery}, whose consumer holds its {consumer.prefetch}"
        to_consumers = sum(1 for _copy, taker in channel.unacked.values() if taker is not None)
        if channel.prefetch and to_consumers >= channel.prefetch:
            return f"{delivery}, whose channel holds its {channel.prefetch}"
        return ""


class OnlyPublished(Checker):
    """Only what was published is delivered, unchanged, and only where its route leads."""

    rule = "only what was published"

    def delivered(self, delivery: "Delivery") -> str:
        attempt, heard = delivery.attempt, delivery.heard
        if attempt is None:
            return f"{delivery}: nobody published it"
        if attempt.state in (REFUSED, WITHDRAWN, FORGOTTEN) and not delivery.plan.surprising:
            return f"{delivery}: it was {attempt.state}"
        if delivery.copy is None:
            return f"{delivery}: it was not routed there, or was not dropped where it came from"
        if heard.body != attempt.body:
            return f"{delivery}: its body was changed"
        if delivery.copy.dead_letter:
            headers = decode_properties(heard.header, 0, len(heard.header)).headers or {}
            return "" if "x-death" in headers else f"{delivery}: a dead letter without x-death"
        return ""


class MarkedRedelivered(Checker):
    """A second delivery says so."""

    rule = "a second delivery is marked"

    def delivered(self, delivery: "Delivery") -> str:
        copy = delivery.copy
        if copy is not None and copy.deliveries and not delivery.redelivered:
            return f"{delivery}: delivered {copy.deliveries} times before, but not marked redelivered"
        return ""


class OneHolder(Checker):
    """A message is with one consumer at a time, and stays gone once it is settled."""

    rule = "one holder at a time"

    def delivered(self, delivery: "Delivery") -> str:
        copy = delivery.copy
        if copy is None:
            return ""
        if copy.state == OUT:
            return f"{delivery}: another consumer has not given it back"
        return f"{delivery}: it was gone, {copy.ending}" if copy.state == GONE else ""


class OrderKept(Checker):
    """First deliveries of a queue follow the order of publishing, per publishing channel and priority.

    Within one turn only the order at one consumer is visible; from turn to turn, that of all.
    """

    rule = "order kept"

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, int], int] = {}
        self._this_turn: dict[tuple[str, str, int], dict[object, int]] = {}

    def delivered(self, delivery: "Delivery") -> str:
        copy, attempt = delivery.copy, delivery.attempt
        if copy is None or attempt is None or delivery.redelivered or copy.dead_letter or attempt.delay_ms:
            return ""
        priority = min(attempt.priority, delivery.plan.priority_max)
        key = (delivery.plan.name, attempt.publisher, priority)
        at_consumer = self._this_turn.setdefault(key, {})
        taker = delivery.consumer or delivery.channel
        last = max(self._last.get(key, 0), at_consumer.get(taker, 0))
        at_consumer[taker] = max(last, attempt.accepted_no)
        return f"{delivery}: a later message of its publisher went first" if attempt.accepted_no < last else ""

    def turned(self, node: "Node") -> str:
        for key, takers in self._this_turn.items():
            self._last[key] = max([self._last.get(key, 0), *takers.values()])
        self._this_turn.clear()
        return ""


class ConfirmsAnswerPublishes(Checker):
    """A confirm answers a publish that came in and was not answered before."""

    rule = "confirms answer publishes"

    def answered(self, channel: "ChannelBook", publish_no: int, multiple: bool) -> str:
        if not channel.confirms:
            return f"confirm {publish_no} on a channel that did not ask for any"
        if publish_no > channel.publish_count:
            return f"confirm {publish_no}, but only {channel.publish_count} were published"
        return "" if publish_no in channel.unanswered else f"confirm {publish_no} answers nothing"


class ReturnsAreDue(Checker):
    """A mandatory message comes back, ahead of its confirm, exactly when it has no queue to go to."""

    rule = "returns are due"

    def returned(self, attempt: Attempt | None) -> str:
        if attempt is None:
            return "a message came back that nobody published"
        if not attempt.mandatory:
            return f"message {attempt.number} came back, which was not mandatory"
        lasting = [copy.plan.name for copy in attempt.copies.values() if not copy.plan.fleeting]
        return f"message {attempt.number} came back, but is routed to {lasting}" if lasting else ""

    def settled(self, attempt: Attempt) -> str:
        if attempt.mandatory and not attempt.copies and not attempt.returned:
            return f"message {attempt.number} was confirmed, has no queue, and did not come back first"
        return ""


class ContentsAgree(Checker):
    """A queue that drops nothing by itself holds exactly what went in and did not come out."""

    rule = "contents agree"

    def recovered(self, node: "Node") -> str:
        return self.turned(node)

    def turned(self, node: "Node") -> str:
        history = node.witness.history
        queues = node.broker.vhosts["/"].topology.queues
        for name, queue in queues.items():
            plan = node.witness.fabric.plans.get(name)
            if plan is None or not plan.exact:
                continue
            out = history.out.get(name, 0)
            ready = history.live.get(name, 0) - out
            if (queue.ready_count(), queue.unacked_count()) != (ready, out):
                holds = f"{queue.ready_count()} ready and {queue.unacked_count()} unacked"
                return f"'{name}' holds {holds} where {ready} and {out} are due"
        return ""


class LimitsKept(Checker):
    """A queue holds no more than its length, and nothing is delivered after its time or before it."""

    rule = "limits kept"

    def turned(self, node: "Node") -> str:
        for name, queue in node.broker.vhosts["/"].topology.queues.items():
            plan = node.witness.fabric.plans.get(name)
            # one that refuses publishes still takes back what it lent
            if plan is None or plan.length_max is None or plan.refuses:
                continue
            # heads that are on disk only go once they were read
            if queue.ready_count() > plan.length_max and not paged_count(queue):
                return f"'{name}' holds {queue.ready_count()} ready, more than its {plan.length_max}"
        return ""

    def delivered(self, delivery: "Delivery") -> str:
        deadline_ms = None if delivery.copy is None else delivery.copy.deadline_ms()
        if deadline_ms is not None and delivery.now_ms > deadline_ms:
            return f"{delivery}: it expired {delivery.now_ms - deadline_ms} ms before"
        attempt = delivery.attempt
        if attempt is not None and delivery.now_ms < attempt.due_ms():
            return f"{delivery}: it was due {attempt.due_ms() - delivery.now_ms} ms later"
        return ""


def paged_count(queue: QueuePort) -> int:
    """How many of a queue's ready messages are on disk only."""
    assert isinstance(queue, Queue)
    return int(queue._contents.paged_count)


def invariants() -> list[Checker]:
    """Every rule of this module, fresh."""
    return [
        NodeChecksItself(),
        BoundedBuffers(),
        DenseTags(),
        WithinPrefetch(),
        OnlyPublished(),
        MarkedRedelivered(),
        OneHolder(),
        OrderKept(),
        ConfirmsAnswerPublishes(),
        ReturnsAreDue(),
        ContentsAgree(),
        LimitsKept(),
    ]
