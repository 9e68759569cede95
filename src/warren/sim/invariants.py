"""The rules for one node. Each rule is an object that is told of events, and answers what is wrong.

Three groups: rules after every step, rules about restarts, and rules for the end of a run, after the faults are over
and all clients had time to finish. The durability of messages is covered by the ordinary rules: the history says what a
dead node must still have (`sim.history`).

A run stops at the first violation: what follows a broken rule proves nothing.

Not here: events and the base class (`sim.observer`).
"""

from warren.broker.model.ports import QueuePort
from warren.broker.queues.queue import Queue
from warren.broker.routing.topology import PREDECLARED
from warren.sim.channel_model import ChannelModel, DurabilityClaim, ObservedDelivery
from warren.sim.history import (
    CONFIRMED,
    FORGOTTEN,
    GONE,
    OUT,
    READY,
    REFUSED,
    WITHDRAWN,
    PublishAttempt,
    why_undeliverable,
)
from warren.sim.observer import Invariant, NodeObserver
from warren.wire.properties import decode_properties

OUTPUT_BUDGET_BYTES = 1024 * 1024
ENTRY_BYTES = 256


class NodeChecksItself(Invariant):
    """The node's own checks pass, and it counts at least the memory its messages need."""

    rule = "the node checks itself"

    def turned(self, observer: NodeObserver) -> str:
        try:
            observer.node.broker.check()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        least = 0
        for queue in observer.node.broker.vhosts["/"].topology.queues.values():
            count = queue.ready_count() - paged_count(queue) + queue.unacked_count()
            least += count * ENTRY_BYTES
        held = observer.node.broker.turn.held_bytes
        return f"{held} bytes are held, less than the {least} its entries need" if held < least else ""


class BoundedBuffers(Invariant):
    """A client that does not read costs a bounded amount of memory."""

    rule = "bounded buffers"

    def turned(self, observer: NodeObserver) -> str:
        for link in observer.node.links.values():
            if link.buffered_bytes() > link.high_water_bytes + 2 * OUTPUT_BUDGET_BYTES:
                return f"{link.buffered_bytes()} bytes wait for connection #{link.number}"
        return ""

    def delivered(self, delivery: ObservedDelivery) -> str:
        return f"{delivery}, whose writes are paused" if delivery.pushed_while_paused else ""


class DenseTags(Invariant):
    """Delivery tags of a channel count 1, 2, 3."""

    rule = "dense delivery tags"

    def delivered(self, delivery: ObservedDelivery) -> str:
        expected = delivery.channel.next_tag
        return f"{delivery}, where {expected} follows" if delivery.tag != expected else ""


class WithinPrefetch(Invariant):
    """No more deliveries are unacked than the prefetch allows."""

    rule = "unacked within prefetch"

    def delivered(self, delivery: ObservedDelivery) -> str:
        consumer, channel = delivery.consumer, delivery.channel
        if consumer is None or delivery.no_ack or channel.gives_back():
            return ""
        if consumer.prefetch and consumer.unacked >= consumer.prefetch:
            return f"{delivery}, whose consumer holds its {consumer.prefetch}"
        to_consumers = sum(1 for _copy, taker in channel.unacked.values() if taker is not None)
        if channel.prefetch and to_consumers >= channel.prefetch:
            return f"{delivery}, whose channel holds its {channel.prefetch}"
        return ""


class OnlyPublished(Invariant):
    """Only published messages are delivered, unchanged, and only where their route leads."""

    rule = "only published messages are delivered"

    def delivered(self, delivery: ObservedDelivery) -> str:
        attempt, received = delivery.attempt, delivery.received
        wrong = why_undeliverable(
            attempt, received.body, () if delivery.spec.surprising else (REFUSED, WITHDRAWN, FORGOTTEN)
        )
        if wrong:
            return f"{delivery}: {wrong}"
        if delivery.copy is None:
            return f"{delivery}: it was not routed there, or was not dropped where it came from"
        if delivery.copy.dead_letter:
            headers = decode_properties(received.header, 0, len(received.header)).headers or {}
            return "" if "x-death" in headers else f"{delivery}: a dead letter without x-death"
        return ""


class MarkedRedelivered(Invariant):
    """A second delivery is marked as redelivered."""

    rule = "a second delivery is marked"

    def delivered(self, delivery: ObservedDelivery) -> str:
        copy = delivery.copy
        if copy is not None and copy.deliveries and not delivery.redelivered:
            return f"{delivery}: delivered {copy.deliveries} times before, but not marked redelivered"
        return ""


class OneHolder(Invariant):
    """A message is with one consumer at a time, and stays gone once it is settled."""

    rule = "one holder at a time"

    def delivered(self, delivery: ObservedDelivery) -> str:
        copy = delivery.copy
        if copy is None:
            return ""
        if copy.state == OUT:
            return f"{delivery}: another consumer has not given it back"
        return f"{delivery}: it was gone, {copy.ending}" if copy.state == GONE else ""


class OrderKept(Invariant):
    """First deliveries of a queue follow the order of publishing, per publishing channel and priority.

    Within one turn only the order at one consumer is visible; from turn to turn, that of all.
    """

    rule = "order kept"

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, int], int] = {}
        self._this_turn: dict[tuple[str, str, int], dict[object, int]] = {}

    def delivered(self, delivery: ObservedDelivery) -> str:
        copy, attempt = delivery.copy, delivery.attempt
        if copy is None or attempt is None or delivery.redelivered or copy.dead_letter or attempt.delay_ms:
            return ""
        priority = min(attempt.priority, delivery.spec.priority_max)
        key = (delivery.spec.name, attempt.publisher, priority)
        at_consumer = self._this_turn.setdefault(key, {})
        taker = delivery.consumer or delivery.channel
        last = max(self._last.get(key, 0), at_consumer.get(taker, 0))
        at_consumer[taker] = max(last, attempt.accepted_no)
        return f"{delivery}: a later message of its publisher went first" if attempt.accepted_no < last else ""

    def turned(self, observer: NodeObserver) -> str:
        for key, takers in self._this_turn.items():
            self._last[key] = max([self._last.get(key, 0), *takers.values()])
        self._this_turn.clear()
        return ""


class ConfirmsAnswerPublishes(Invariant):
    """A confirm answers a publish that came in and was not answered before."""

    rule = "confirms answer publishes"

    def answered(self, channel: ChannelModel, publish_no: int, multiple: bool) -> str:
        if not channel.confirms:
            return f"confirm {publish_no} on a channel that did not ask for any"
        if publish_no > channel.publish_count:
            return f"confirm {publish_no}, but only {channel.publish_count} were published"
        return "" if publish_no in channel.unanswered else f"confirm {publish_no} answers nothing"


class ReturnsAreDue(Invariant):
    """A mandatory message is returned, ahead of its confirm, exactly when it has no queue."""

    rule = "returns are due"

    def returned(self, attempt: PublishAttempt | None) -> str:
        if attempt is None:
            return "a message came back that was never published"
        if not attempt.mandatory:
            return f"message {attempt.number} came back, which was not mandatory"
        lasting = [copy.spec.name for copy in attempt.copies.values() if not copy.spec.fleeting]
        return f"message {attempt.number} came back, but is routed to {lasting}" if lasting else ""

    def settled(self, attempt: PublishAttempt) -> str:
        if attempt.mandatory and not attempt.copies and not attempt.returned:
            return f"message {attempt.number} was confirmed, has no queue, and did not come back first"
        return ""


class ContentsAgree(Invariant):
    """A queue that drops nothing by itself holds exactly what went in and did not come out."""

    rule = "contents agree"

    def recovered(self, observer: NodeObserver) -> str:
        return self.turned(observer)

    def turned(self, observer: NodeObserver) -> str:
        history = observer.history
        queues = observer.node.broker.vhosts["/"].topology.queues
        for name, queue in queues.items():
            spec = observer.routing.specs.get(name)
            if spec is None or not spec.exact:
                continue
            out = history.out.get(name, 0)
            ready = history.live.get(name, 0) - out
            if (queue.ready_count(), queue.unacked_count()) != (ready, out):
                holds = f"{queue.ready_count()} ready and {queue.unacked_count()} unacked"
                return f"'{name}' holds {holds} where {ready} and {out} are due"
        return ""


class LimitsKept(Invariant):
    """A queue holds no more than its length limit, and nothing is delivered after its expiry or before its delay."""

    rule = "limits kept"

    def turned(self, observer: NodeObserver) -> str:
        for name, queue in observer.node.broker.vhosts["/"].topology.queues.items():
            spec = observer.routing.specs.get(name)
            # a queue that rejects publishes still takes requeued messages
            if spec is None or spec.length_max is None or spec.refuses:
                continue
            # a head that is on disk only is dropped after it was read; a turn may have no budget left for a drain
            pending = paged_count(queue) or queue in observer.node.broker.turn.drains
            if queue.ready_count() > spec.length_max and not pending:
                return f"'{name}' holds {queue.ready_count()} ready, more than its {spec.length_max}"
        return ""

    def delivered(self, delivery: ObservedDelivery) -> str:
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


def step_invariants() -> list[Invariant]:
    """Fresh rules for every step."""
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


BUILT_IN = {name for name, _type, _internal in PREDECLARED}


class AnswersAreOnDisk(Invariant):
    """Confirmed, committed or durably declared things are on disk before the client is told."""

    rule = "promises are on disk"

    def promised(self, promise: DurabilityClaim, on_disk_no: int) -> str:
        if promise.batch_no > on_disk_no:
            return f"{promise.what} was answered; it is in batch {promise.batch_no}, and {on_disk_no} is on disk"
        return ""


class DurableObjectsSurvive(Invariant):
    """A node that starts has the durable exchanges, queues and bindings, and no others."""

    rule = "durable objects survive a restart"

    def recovered(self, observer: NodeObserver) -> str:
        routing, topology = observer.routing, observer.node.broker.vhosts["/"].topology
        fleeting = {name for name, spec in routing.specs.items() if spec.fleeting}
        bindings = {
            (binding.source.name, binding.routing_key, binding.destination.name)
            for exchange in topology.exchanges.values()
            for binding in exchange.outgoing
        }
        compared = (
            ("exchanges", set(topology.exchanges) - BUILT_IN, routing.exchanges()),
            ("queues", set(topology.queues) - fleeting, routing.queues() - fleeting),
            (
                "bindings",
                {binding for binding in bindings if binding[2] not in fleeting},
                {binding for binding in routing.bindings() if binding[2] not in fleeting},
            ),
        )
        for what, found, due in compared:
            if found != due:
                return f"of the {what}, {sorted(due - found)} are missing and {sorted(found - due)} too many"
        return ""


class ReturnsAreCounted(Invariant):
    """A message that was requeued more often than its queue allows is not delivered again, not even after a restart."""

    rule = "returns are counted"

    def delivered(self, delivery: ObservedDelivery) -> str:
        limit, copy = delivery.spec.delivery_limit, delivery.copy
        if limit is not None and copy is not None and copy.returns > limit:
            return f"{delivery}: it came back {copy.returns} times, and {limit} is the limit"
        return ""


class FirstDeliveriesUnmarked(Invariant):
    """Nothing is marked as redelivered that cannot have been delivered."""

    rule = "first deliveries are not marked"

    def delivered(self, delivery: ObservedDelivery) -> str:
        copy = delivery.copy
        if copy is not None and delivery.redelivered and not copy.deliveries and not delivery.queue_requeued:
            return f"{delivery}: marked redelivered, though its queue never got anything back"
        return ""


class NothingComesBack(Invariant):
    """A drained node that dies once its disk is idle finds nothing and keeps no segments."""

    rule = "nothing comes back"

    def rested(self, observer: NodeObserver) -> str:
        counts = {
            name: queue.ready_count() + queue.unacked_count()
            for name, queue in observer.node.broker.vhosts["/"].topology.queues.items()
        }
        for name, count in counts.items():
            if count and not observer.routing.specs[name].fleeting:
                return f"'{name}' has {count} messages again"
        segments = [name for name in observer.node.disk.directory.names() if name.endswith(".seg")]
        if len(segments) > 1 and not any(counts.values()):
            return f"{len(segments)} segments are left, and no messages"
        return ""


def durability_invariants() -> list[Invariant]:
    """Fresh rules about restarts."""
    return [
        AnswersAreOnDisk(),
        DurableObjectsSurvive(),
        ReturnsAreCounted(),
        FirstDeliveriesUnmarked(),
        NothingComesBack(),
    ]


class NothingConfirmedLost(Invariant):
    """Every copy of an accepted message was settled by a consumer, or dropped by a limit of the workload."""

    rule = "nothing confirmed is lost"

    def ended(self, observer: NodeObserver) -> str:
        for copy in observer.history.living:
            spec, attempt = copy.spec, copy.attempt
            if spec.fleeting:
                continue
            if copy.may_have_died:
                continue
            promise = "confirmed" if attempt.state == CONFIRMED else "accepted"
            what = f"message {attempt.number} was {promise} for '{spec.name}'"
            if not copy.may_be_dropped():
                return f"{what} and is lost; it was {copy.state}, delivered {copy.deliveries} times"
            if spec.dead_letter_exchange and copy.state == READY:
                return f"{what} and was neither delivered nor dead-lettered"
        return ""


class EveryClientProgresses(Invariant):
    """Publishers have their answers, consumers their messages, and nothing is left."""

    rule = "every client makes progress"

    def ended(self, observer: NodeObserver) -> str:
        for client in observer.node.simulation.clients:
            if not client.done():
                return f"{client.name} still waits: {client.waiting_for()}"
        for name, queue in observer.node.broker.vhosts["/"].topology.queues.items():
            spec = observer.routing.specs.get(name)
            left = queue.ready_count() + queue.unacked_count()
            if left and (spec is None or not spec.fleeting):
                return f"'{name}' still holds {queue.ready_count()} ready and {queue.unacked_count()} unacked"
        return ""


class NoMemoryWithoutMessages(Invariant):
    """A node without messages counts no memory for any."""

    rule = "no memory is counted without messages"

    def ended(self, observer: NodeObserver) -> str:
        queues = observer.node.broker.vhosts["/"].topology.queues.values()
        if not any(queue.ready_count() + queue.unacked_count() for queue in queues):
            held = observer.node.broker.turn.held_bytes
            if held:
                return f"{observer.node.name} holds {held} bytes for messages it does not have"
        return ""


def final_invariants() -> list[Invariant]:
    """Fresh rules for the end of a run."""
    return [EveryClientProgresses(), NothingConfirmedLost(), NoMemoryWithoutMessages()]
