"""All the rings that this node has a part in, and what comes for them: definitions, messages, nodes that come and go.

A mirror may hear of an epoch before its new master does, and ask to join it too early: what it asked is kept until this
node is that master, or the link is gone.

Not here: one ring (`broker.mirrors.part`), the links (`remote.links`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.membership import Membership
from warren.broker.mirrors.catching_up import SyncPace
from warren.broker.mirrors.downlink import Unsaid
from warren.broker.mirrors.hearing import hear_follower, hear_master
from warren.broker.mirrors.making import adopted_copy, make_queue, new_copy
from warren.broker.mirrors.mastery import Mastery
from warren.broker.mirrors.mirrored_log import MirroredLog, max_priority_of
from warren.broker.mirrors.part import Part
from warren.broker.mirrors.pulse import Pulse
from warren.broker.mirrors.wishes import Wishes
from warren.broker.moves.adopting import Adopting, close_old_road
from warren.broker.moves.placing import RingPlacing
from warren.broker.moves.proposals import RingProposals
from warren.broker.moves.retreat import Retreat
from warren.broker.names import FreshNames
from warren.broker.shared_agreement import SharedAgreement
from warren.broker.storage import Storage
from warren.broker.stream_files import StreamFiles
from warren.broker.vhost import Vhost
from warren.mirroring import messages
from warren.mirroring.master import Master
from warren.mirroring.messages import MessageReader
from warren.mirroring.mirror import JoinRequest
from warren.mirroring.story import Story
from warren.model.copies import Copy
from warren.model.message import Entry
from warren.model.mirrored import MasterWaiter
from warren.model.own_queue import OwnQueue
from warren.model.ports import QueueLog, QueueLogs, QueuePort
from warren.model.rings import Run
from warren.model.turn import Timed, Turn
from warren.remote.links import Links
from warren.session import firehose
from warren.store.queue_book import QueueBook
from warren.store.topology_definitions import QueueDefinition

AGAIN_MS: Final[i64] = 200


@final
class Rings(Timed):
    """One node's."""

    def __init__(
        self,
        turn: Turn,
        membership: Membership,
        agreement: SharedAgreement,
        links: Links,
        vhosts: dict[str, Vhost],
        storage: Storage,
        wishes: Wishes,
        names: FreshNames,
        pace: SyncPace,
    ) -> None:
        self.turn: Turn = turn
        self.membership: Membership = membership
        self.agreement: SharedAgreement = agreement
        self.links: Links = links
        self.own_run: Run = (membership.own, membership.incarnation)
        # masters with something to put into a step before the turn ends
        self.touched: list[Mastery] = []
        # mirrors that heard something
        self._moved: dict[Part, None] = {}
        self._vhosts: dict[str, Vhost] = vhosts
        self._logs: QueueLogs = storage.journal
        self._streams: StreamFiles = storage.streams
        self.wishes: Wishes = wishes
        self.pace: SyncPace = pace
        self.placing: RingPlacing = RingPlacing(self, names)
        self.adopting: Adopting = Adopting(self, vhosts)
        self.retreating: Retreat = Retreat(self)
        self.proposals: RingProposals = RingProposals(agreement)
        self._parts: dict[int, Part] = {}
        # to join masters, whatever their queues
        self.attempts: int = 0
        self._early: dict[int, dict[str, tuple[int, int, JoinRequest]]] = {}
        # the runs of other nodes that there are links to
        self._reached: dict[str, int] = {}
        # nodes whose ports refuse connections, and the last run that was known of each
        self._refusing: dict[str, int] = {}
        # who waits for a queue to be open here: by its id
        self._awaiting: dict[int, list[tuple[MasterWaiter, str, int]]] = {}
        self._began: bool = False
        # parts that were told something and have not acted on it, and those that are new
        self._changed: dict[Part, QueueDefinition] = {}
        self._fresh: list[Part] = []
        self._partners_known: bool = True
        # queues that this node held before, whose past is not forgotten yet
        self._postponed: dict[int, tuple[QueueDefinition, Story]] = {}
        self.pulse: Pulse = Pulse(links, turn)
        self.unsaid: Unsaid = Unsaid(turn)

    # -- what was agreed upon

    def put(self, definition: QueueDefinition, queue_id: int) -> None:
        """A mirrored queue is there, or its ring is another."""
        part = self._parts.get(queue_id)
        ring = definition.ring
        assert ring is not None, "it is mirrored"
        if self.own_run[0] not in ring.members:
            self._postponed.pop(queue_id, None)
            self._streams.drop(queue_id)
            if part is not None:
                self._drop(part)
                self._logs.forget_past(queue_id)
        elif part is not None:
            self._changed[part] = definition
            part.is_behind = True
        else:
            self._take_part(definition, queue_id, self._postponed.pop(queue_id, (definition, Story()))[1])

    def adopt(self, definition: QueueDefinition, queue: OwnQueue, seat: QueuePort) -> None:
        """A queue of this node alone is to be held by others, too."""
        book = queue.log()
        assert isinstance(book, QueueBook), "this node's journal has it"
        copy = adopted_copy(definition, queue, book, self._streams, self.turn)
        part = self._new_part(definition, queue.queue_id, book, copy, Story())
        part.adopt(queue)
        close_old_road(queue, seat)
        self._fresh.append(part)

    def lent_out(self, queue: OwnQueue) -> list[Entry]:
        """What clients of this node and others have of a queue that was this node's alone."""
        vhost = self._vhosts[queue.vhost]
        return vhost.lent_out(queue) + self.links.lent_out(queue)

    def act(self) -> None:
        """Everything that was told is known: what is proposed from here on relies on that."""
        if not self._began:
            return
        changed, self._changed = self._changed, {}
        for part, definition in changed.items():
            part.changed(definition)
        fresh, self._fresh = self._fresh, []
        for part in fresh:
            part.prepare()
        self.adopting.act()

    def delete(self, queue_id: int) -> None:
        """The queue is gone."""
        self._postponed.pop(queue_id, None)
        self._early.pop(queue_id, None)
        part = self._parts.get(queue_id)
        if part is not None:
            self._drop(part)

    def parts(self) -> list[Part]:
        return list(self._parts.values())

    def named(self, vhost: str, name: str) -> Part | None:
        """This node's part in the ring of a queue."""
        found = self._vhosts.get(vhost)
        queue = None if found is None else found.topology.queues.get(name)
        return None if queue is None else self._parts.get(queue.queue_id)

    def mastery_of(self, queue_id: int) -> Mastery | None:
        """This node's as the master of that queue, if it is."""
        part = self._parts.get(queue_id)
        return None if part is None else part.mastery

    def begin(self) -> None:
        """What is on disk was read: from here on this node acts."""
        self._began = True
        self.adopting.look_soon()
        self.act()

    def _take_part(self, definition: QueueDefinition, queue_id: int, story: Story) -> None:
        if not self._logs.may_open(queue_id):
            self._postponed[queue_id] = (definition, story)
            self.turn.set_timer(self.turn.now_ms + AGAIN_MS, self)
            return
        log_id = queue_id if definition.durable else -abs(queue_id)
        book = self._logs.open(log_id, definition.durable, max_priority_of(definition.arguments))
        assert isinstance(book, QueueBook), "this node's journal has it"
        copy = new_copy(definition, queue_id, book, self._streams, self.turn)
        self._fresh.append(self._new_part(definition, queue_id, book, copy, story))

    def _new_part(self, definition: QueueDefinition, queue_id: int, book: QueueBook, copy: Copy, story: Story) -> Part:
        part = Part(self, definition, queue_id, book, copy)
        part.story = story
        self._parts[queue_id] = part
        return part

    def timer_fired(self) -> None:
        """See whether those queues may be held again that this node held before."""
        postponed, self._postponed = self._postponed, {}
        for queue_id, (definition, story) in postponed.items():
            self._take_part(definition, queue_id, story)
        self.act()

    def hold_anew(self, part: Part) -> None:
        """What this node holds is of no use: it begins with nothing."""
        self._drop(part)
        self._logs.forget_past(part.queue_id)
        self._take_part(part.definition, part.queue_id, part.story)
        self.act()

    def _drop(self, part: Part) -> None:
        if part.mastery is not None:
            self.close_queue(part.definition)
        del self._parts[part.queue_id]
        self._changed.pop(part, None)
        self._fresh = [fresh for fresh in self._fresh if fresh is not part]
        part.close()

    # -- nodes

    def living(self, node: str) -> int:
        """The run of a node that is known to be alive; 0 if there is none."""
        return self.membership.members.incarnation(node) or 0

    def all_living(self) -> dict[str, int]:
        found = {name: self.living(name) for name in self.membership.members.alive_names()}
        return {**found, self.own_run[0]: self.own_run[1]}

    def incarnation_reached(self, node: str) -> int:
        """The run of a node that there is a link to; 0 if there is none."""
        return self._reached.get(node, 0)

    def peer_connected(self, node: str, incarnation: int) -> None:
        self._reached[node] = incarnation
        self._refusing.pop(node, None)
        for part in list(self._parts.values()):
            if part.mastery is None:
                part.act()
            else:
                self.placing.look(part)

    def peer_lost(self, node: str, refused: bool) -> None:
        run = (node, self._reached.pop(node, 0))
        if refused:
            self._refusing[node] = max(run[1], self._refusing.get(node, 0), self.living(node))
        self.pulse.lost(node)
        for queue_id in [one for one, early in self._early.items() if node in early]:
            self._early[queue_id].pop(node)
            if not self._early[queue_id]:
                del self._early[queue_id]
        for part in list(self._parts.values()):
            if part.mastery is not None:
                part.mastery.lost(node)
                part.mastery.serving.look()
                self.placing.look(part)
            elif part.ring.master == node:
                part.master_lost(refused)

    def lives_changed(self) -> None:
        for part in list(self._parts.values()):
            if part.mastery is None:
                part.act()
            else:
                part.mastery.serving.look()
                self.placing.look(part)

    # -- what members say

    def arrived(self, node: str, data: bytes, start: i64, end: i64) -> None:
        reader = MessageReader(data, start, end)
        if reader.kind == messages.BEAT:
            self.pulse.asked(node, reader.word())
            return
        if reader.kind == messages.PULSE:
            self.pulse.answered(node, reader.word())
            self._serve_on(node)
            return
        part = self._parts.get(reader.queue_id)
        if messages.from_mirror(reader.kind):
            self._from_mirror(node, part, reader)
        elif part is not None and part.mastery is None and hear_master(node, part, reader):
            self._moved[part] = None

    def _from_mirror(self, node: str, part: Part | None, reader: MessageReader) -> None:
        mastery = None if part is None else part.mastery
        if reader.kind == messages.JOIN:
            self._join(node, mastery, reader)
        elif mastery is not None and mastery.bears(node, reader.tag):
            hear_follower(node, mastery, reader)

    def _join(self, node: str, mastery: Mastery | None, reader: MessageReader) -> None:
        request = reader.join()
        incarnation = self.incarnation_reached(node)
        epoch = 0 if mastery is None else mastery.master.ring.epoch
        if mastery is not None and epoch == request.epoch:
            mastery.joined(node, incarnation, reader.tag, request)
        elif epoch < request.epoch:
            self._early.setdefault(reader.queue_id, {})[node] = (incarnation, reader.tag, request)

    def leads(self, part: Part) -> None:
        """This node is master of an epoch: whoever asked too early is heard now."""
        mastery = part.mastery
        assert mastery is not None
        for node, (incarnation, tag, request) in self._early.pop(part.queue_id, {}).items():
            if request.epoch == part.ring.epoch and self.incarnation_reached(node) == incarnation:
                mastery.joined(node, incarnation, tag, request)
        for waiter, node, incarnation in self._awaiting.pop(part.queue_id, []):
            mastery.await_open(waiter, node, incarnation)
        self.placing.look(part)

    def trace_settled(self, queue: OwnQueue, master: Master, entries: list[Entry]) -> None:
        """Let it be seen who holds what, if that is wanted."""
        vhost = self._vhosts.get(queue.vhost)
        if vhost is not None and vhost.tracing:
            epoch, nodes = master.ring.epoch, sorted([run[0] for run in master.counted()])
            for entry in entries:
                firehose.settled(vhost.topology, self.own_run[0], queue, entry.message, epoch, nodes)

    # -- handing out

    def partners_changed(self) -> None:
        """Other nodes may count for queues of which this one is master: see to it once, however many those are."""
        self._partners_known = False

    def _find_partners(self) -> None:
        self._partners_known = True
        partners: dict[str, None] = {}
        for part in self._parts.values():
            if part.mastery is not None:
                for name, _incarnation in part.mastery.master.counted():
                    partners[name] = None
        partners.pop(self.own_run[0], None)
        self.pulse.watch(list(partners))

    def _serve_on(self, node: str) -> None:
        for part in self._parts.values():
            if part.mastery is not None and node in part.mastery.master.followers:
                part.mastery.serving.look()

    def has_ended(self, run: Run) -> bool:
        """Whether a run of another node serves nobody any more: the store says so, or nobody listens where it did."""
        return self.membership.has_ended(run[0], run[1]) or self._refusing.get(run[0], 0) >= run[1]

    # -- the turn

    def waiting(self) -> bool:
        gathered = len(self.touched) > 0 or len(self._moved) > 0 or self.proposals.waiting()
        return gathered or not self._partners_known

    def end_round(self) -> None:
        """What was gathered becomes steps, and what came is told to be safe."""
        if not self._partners_known:
            self._find_partners()
        touched, self.touched = self.touched, []
        for mastery in touched:
            mastery.end_round()
        moved, self._moved = self._moved, {}
        for part in moved:
            part.mirror.end_turn()
        self.proposals.make()

    # -- queues

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        """Tell the waiter, who speaks for a node, when the queue is open here; never, if that does not happen."""
        incarnation = self.own_run[1] if node == self.own_run[0] else self.incarnation_reached(node)
        part = self._parts.get(queue_id)
        if part is not None and part.mastery is not None:
            part.mastery.await_open(waiter, node, incarnation)
        else:
            self._awaiting.setdefault(queue_id, []).append((waiter, node, incarnation))

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        waiting = self._awaiting.pop(queue_id, [])
        left = [one for one in waiting if one[0] is not waiter]
        if left:
            self._awaiting[queue_id] = left
        part = self._parts.get(queue_id)
        if part is not None and part.mastery is not None:
            part.mastery.forget(waiter)

    def make_queue(self, part: Part, book: QueueLog, mastery: Mastery) -> tuple[OwnQueue, MirroredLog]:
        return make_queue(part, self._vhosts[part.definition.vhost], book, mastery)

    def deserted(self, queue: OwnQueue) -> None:
        """Whoever consumed from a queue of which this node is master does so no more, at one node at least."""
        if queue.auto_delete and queue.consumer_count() == 0:
            self._vhosts[queue.vhost].let_go(queue)

    def close_queue(self, definition: QueueDefinition) -> None:
        """This node's queue is no more, though there may be one elsewhere."""
        vhost = self._vhosts.get(definition.vhost)
        if vhost is not None:
            vhost.unmake_mastered_queue(definition.name)

    def policies_changed(self, vhost: str) -> None:
        self.adopting.look_soon()
        for part in self._parts.values():
            if part.definition.vhost == vhost:
                part.policies_changed()
