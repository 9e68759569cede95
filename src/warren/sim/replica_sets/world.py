"""The world of a replica set model: its nodes, links and store, and the actions that are possible.

    world = ReplicaSetWorld(3)
    action = world.ordinary()[0]
    world.act(action)

An action is a word and the names or numbers it concerns. Each is one thing that one node does or hears of, or one
fault, and ends with a check of every rule. Snapshots of the state can be compared.

Not here: who picks actions (`sim.replica_sets.run`, `sim.replica_sets.exploration`), the rules
(`sim.replica_sets.invariants`).
"""

from collections.abc import Callable, Sequence

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.batches import ReplicationBatch
from warren.broker.replication.master import Master
from warren.broker.replication.mirror import Mirror
from warren.errors import InvariantBroken, PeerFault
from warren.sim.replica_sets.invariants import UNDERSTOOD, ReplicaSetInvariants
from warren.sim.replica_sets.master import ModelMaster
from warren.sim.replica_sets.metadata_store import DesiredReplicas
from warren.sim.replica_sets.node import ModelCluster, ModelNode


def snapshot_of(member: ModelNode) -> object:
    if not member.up:
        return (member.incarnation, member.copy.snapshot())
    master_replica = member.master_replica
    return (
        member.incarnation,
        member.copy.snapshot(),
        member.version,
        tuple(sorted(member.living.items())),
        tuple(sorted(member.peers)),
        member.following,
        member.attempt,
        member.frozen,
        (member.wanted, member.retreats),
        member.asks_store,
        tuple(member.early),
        tuple(number - member.copy.written_no for number, _waiters in member.batches),
        int(member.turn.now_ms),
        member.turn.next_timer_ms(),
        member.proxy.snapshot(),
        _mirror_snapshot(member.mirror),
        None
        if master_replica is None
        else (_model_master_snapshot(master_replica), _master_snapshot(master_replica.master)),
    )


def _mirror_snapshot(mirror: Mirror) -> object:
    return (
        mirror.state,
        mirror.whole,
        int(mirror.end),
        int(mirror.committed),
        _batches_snapshot(mirror.batches),
        tuple(mirror.epochs.beginnings),
        tuple(sorted(mirror.marks.counts.items())),
        int(mirror._flushed_to),
        tuple((int(mark.end), mark.caught_up) for mark in mirror._flushes),
        mirror._stale_flushes,
        mirror._unflushed,
    )


def _master_snapshot(master: Master) -> object:
    return (
        repr(master.replica_set),
        int(master.end),
        int(master.committed),
        _batches_snapshot(master.batches),
        tuple(master.epochs.beginnings),
        tuple(sorted(master.marks.counts.items())),
        tuple(
            (node, one.incarnation, int(one.began), int(one.flushed_to), one.complete)
            for node, one in master.followers.items()
        ),
        int(master._own_flushed_to),
        tuple(int(number) for number in master._flushes),
        tuple(repr(replica_set) for replica_set in master._proposals),
        master._under_way,
        master._backing_off,
        master._join_timed_out,
        (tuple(master._wanted), master._candidate),
    )


def _model_master_snapshot(master_replica: ModelMaster) -> object:
    return (
        master_replica.epoch,
        master_replica.is_open,
        master_replica.next_position,
        (master_replica.watermark_before, master_replica.watermark.committed, master_replica.watermark.requested),
        (frozenset(master_replica.arrived), frozenset(master_replica.out), frozenset(master_replica.handed)),
        (tuple(sorted(master_replica.gone.items())), tuple(sorted(master_replica.uncommitted.items()))),
        (
            tuple(master_replica.joins.items()),
            tuple(master_replica.proxies.items()),
            tuple(master_replica.confirmed.items()),
        ),
        tuple((node, one.snapshot()) for node, one in master_replica.joining_mirrors.items()),
    )


def _batches_snapshot(batches: list[ReplicationBatch]) -> object:
    return tuple((int(batch.number), int(batch.epoch), batch.data) for batch in batches)


NAMES = ("a", "b", "c", "d", "e")

Action = tuple[str, str, str, int]
"""The action, its node, another node, and a number."""


class ReplicaSetWorld(ModelCluster):
    """The first node is the master, and alone in sync; without `members` all nodes are members."""

    def __init__(
        self,
        size: int,
        promotes_unsynced: bool = False,
        write: Callable[[str, str], None] | None = None,
        members: Sequence[str] = (),
    ) -> None:
        names = list(NAMES[:size])
        replica_set = ReplicaSet(1, names[0], list(members) or names, [(names[0], 1)])
        super().__init__(replica_set, promotes_unsynced)
        self.rules: ReplicaSetInvariants = ReplicaSetInvariants(self)
        if members:
            self.store.wanted = DesiredReplicas("exactly", len(members))
        self.steps_taken = 0
        # the actions were seen to break no rule
        self.seen_before = False
        self._write = write
        for name in names:
            self.members[name] = ModelNode(self, name, replica_set)
        for name in names:
            self._introduce(self.members[name])

    def _introduce(self, member: ModelNode) -> None:
        self.store.register(member.node_incarnation)
        self.links.connect(member.name, member.name)
        member.connected(member.name)

    # -- possible actions

    def ordinary(self) -> list[Action]:
        """Actions that happen by themselves, without faults and clients."""
        found: list[Action] = []
        for one, other, link in self.links.all():
            for to, waiting in link.waiting.items():
                sender = other if to == one else one
                if waiting and (sender, to) not in self.links.cut:
                    found.append(("deliver", to, sender, 1))
                if link.broken and to not in link.noticed:
                    found.append(("notice", to, sender, 0))
        members = list(self.members.values())
        for place, member in enumerate(members):
            if not member.up:
                continue
            found += self._of(member)
            for peer in members[place + 1 :]:
                if (
                    peer.up
                    and not self.links.is_cut(member.name, peer.name)
                    and self.links.between(member.name, peer.name) is None
                ):
                    found.append(("connect", member.name, peer.name, 0))
        return found + self._of_store()

    def _of(self, member: ModelNode) -> list[Action]:
        name = member.name
        found: list[Action] = []
        if member.batches:
            found.append(("flush", name, "", 0))
        if self.may_notify(name):
            found.append(("notify", name, "", 0))
        if name not in self.store.cut and self.store.majority and self.store.living.get(name) != member.incarnation:
            found.append(("register", name, "", 0))
        if member.takes_master_for_lost():
            found.append(("propose itself", name, "", 0))
        if member.master_replica is not None:
            joining_mirrors = member.master_replica.joining_mirrors.items()
            found += [
                ("feed", name, node, 1) for node, joining_mirror in joining_mirrors if joining_mirror.reader is not None
            ]
        return found

    def may_notify(self, name: str) -> bool:
        """Whether there is a notification of the store to hear."""
        return name not in self.store.cut and name in self.store.news and len(self.store.news[name]) > 0

    def _of_store(self) -> list[Action]:
        found: list[Action] = []
        for number, request in enumerate(self.store.requests):
            name = request.proposer[0]
            if request.succeeded is None:
                if self.store.majority and (request.given_up or name not in self.store.cut):
                    found.append(("apply", name, "", number))
            elif name not in self.store.cut:
                found.append(("answer", name, "", number))
        return found

    def timers(self) -> list[Action]:
        return [("timer", name, "", 0) for name, member in self.members.items() if member.up and _has_timer(member)]

    def waiting_for_sync(self) -> list[Action]:
        """Masters with joining mirrors that wait for an operator's sync."""
        return [
            ("sync", name, "", 0)
            for name, member in self.members.items()
            if member.master_replica is not None
            and any(not one.allowed for one in member.master_replica.joining_mirrors.values())
        ]

    # -- actions

    def act(self, action: Action) -> None:
        what, name, other, number = action
        self.steps_taken += 1
        self.seen[what] += 1
        if self._write is not None:
            self._write(name, f"{what} {other} {number or ''}".rstrip() + self._details(action))
        member = self.members.get(name)
        try:
            _ACTIONS[what](self, name, other, number)
            if member is not None and member.up:
                member.end_turn()
                if what == "connect":
                    self.members[other].end_turn()
        except (PeerFault, InvariantBroken) as fault:
            self.rules.complain(UNDERSTOOD, f"{what} at {name}: {fault}")
            return
        if not self.seen_before:
            self.rules.look(member)

    def _details(self, action: Action) -> str:
        what, name, other, number = action
        if what in ("deliver", "deliver and notify"):
            link = self.links.between(name, other)
            assert link is not None
            return "".join(f"\n{'':22}{message}" for message in link.waiting[name][:number])
        if what in ("apply", "answer", "give up"):
            return f": {self.store.requests[number]}"
        return ""

    def deliver(self, name: str, sender: str, count: int) -> None:
        for _ in range(count):
            link = self.links.between(name, sender)
            if link is None or not link.waiting[name]:
                break
            self.members[name].receive(sender, link.waiting[name].pop(0))

    def notice(self, name: str, peer: str, _number: int) -> None:
        self.links.notice(peer, name)
        self.members[name].lost(peer)

    def connect(self, name: str, peer: str, _number: int) -> None:
        self.links.connect(name, peer)
        self.members[name].connected(peer)
        self.members[peer].connected(name)

    def flush(self, name: str, _other: str, _number: int) -> None:
        self.members[name].flushed()

    def timer(self, name: str, _other: str, _number: int) -> None:
        self.members[name].timer_fired()

    def notify(self, name: str, _other: str, _number: int) -> None:
        self.members[name].notified(self.store.news[name].pop(0))

    def deliver_and_notify(self, name: str, sender: str, count: int) -> None:
        """In the turn in which messages came."""
        self.deliver(name, sender, count)
        self.notify(name, "", 0)

    def register(self, name: str, _other: str, _number: int) -> None:
        self.store.register(self.members[name].node_incarnation)

    def propose_itself(self, name: str, _other: str, _number: int) -> None:
        self.members[name].propose_itself()

    def feed(self, name: str, other: str, count: int) -> None:
        self._master_replica(name).joining_mirrors[other].feed(count)

    def apply(self, _name: str, _other: str, number: int) -> None:
        before = self.store.replica_set
        self.store.apply(self.store.requests[number])
        self.rules.agreed(before, self.store.replica_set)

    def answer(self, name: str, _other: str, number: int) -> None:
        request = self.store.requests.pop(number)
        member = self.members[name]
        member.asks_store = False
        if request.succeeded:
            self.seen["agreed"] += 1
            member.see(request.version + 1, request.replica_set)
        else:
            member.refused()

    def snapshot(self) -> object:
        """Everything that matters for later actions, for comparison."""
        return (
            tuple(snapshot_of(member) for member in self.members.values()),
            self.links.snapshot(),
            self.store.snapshot(),
            self.rules.snapshot(),
        )

    # -- clients

    def publish(self, name: str, _other: str, number: int) -> None:
        """`number` is 2 for persistent ones, and 1 more on the upper level."""
        self.rules.published += 1
        self.members[name].proxy.publish(number & 1, number & 2 != 0)

    def consume(self, name: str, other: str, number: int) -> None:
        master_replica = self._master_replica(name)
        if other == "raise watermark":
            master_replica.mark_delivered(number)
        elif other == "deliver":
            master_replica.deliver()
        elif other == "ack":
            master_replica.ack(sorted(master_replica.out)[number % len(master_replica.out)])
        elif other == "requeue":
            master_replica.requeue(sorted(master_replica.out)[number % len(master_replica.out)])
        else:
            master_replica.purge()

    def _master_replica(self, name: str) -> ModelMaster:
        master_replica = self.members[name].master_replica
        assert master_replica is not None
        return master_replica

    # -- operators

    def want(self, mode: str, names: str, number: int) -> None:
        """`number` is twice the number of replicas, and 1 more for automatic sync."""
        self.store.want(DesiredReplicas(mode, number >> 1, tuple(names.split()), number & 1 != 0))

    def retreat(self, name: str, _other: str, _number: int) -> None:
        self.members[name].retreat()

    def sync(self, name: str, _other: str, _number: int) -> None:
        master_replica = self._master_replica(name)
        for joining_mirror in master_replica.joining_mirrors.values():
            joining_mirror.allowed = True
        master_replica.look_at_joining_mirrors()

    def cancel_sync(self, name: str, _other: str, _number: int) -> None:
        for joining_mirror in self._master_replica(name).joining_mirrors.values():
            joining_mirror.stop()

    # -- faults

    def give_up(self, name: str, _other: str, number: int) -> None:
        """The answer is lost or late; the proposal may still be applied."""
        request = self.store.requests[number]
        request.given_up = True
        if request.succeeded is not None:
            del self.store.requests[number]
        self.members[name].refused()

    def vanish(self, _name: str, _other: str, number: int) -> None:
        del self.store.requests[number]

    def crash(self, name: str, _other: str, kept: int) -> None:
        self.links.end(name)
        self.store.ended(name)
        member = self.members[name]
        member.die(min(kept, len(member.copy.written)))

    def restart(self, name: str, _other: str, _number: int) -> None:
        member = self.members[name]
        member.start()
        self._introduce(member)

    def lose(self, name: str, peer: str, _number: int) -> None:
        link = self.links.between(name, peer)
        assert link is not None
        link.broken = True

    def cut(self, name: str, peer: str, _number: int) -> None:
        self.links.cut.add((name, peer))

    def mend(self, name: str, peer: str, _number: int) -> None:
        self.links.cut.discard((name, peer))

    def halt_store(self, _name: str, _other: str, _number: int) -> None:
        self.store.majority = not self.store.majority

    def cut_store(self, name: str, _other: str, _number: int) -> None:
        self.store.cut ^= {name}

    def expire(self, name: str, _other: str, _number: int) -> None:
        self.store.expire(name)

    def watch_anew(self, name: str, _other: str, _number: int) -> None:
        self.store.watch_anew(name)


def _has_timer(member: ModelNode) -> bool:
    return member.turn.next_timer_ms() > 0


_ACTIONS: dict[str, Callable[[ReplicaSetWorld, str, str, int], None]] = {
    name: getattr(ReplicaSetWorld, name.replace(" ", "_"))
    for name in (
        *(
            "deliver",
            "notice",
            "connect",
            "flush",
            "timer",
            "notify",
            "deliver and notify",
            "register",
            "feed",
            "apply",
            "answer",
        ),
        *("propose itself", "publish", "consume", "want", "retreat", "sync", "cancel sync"),
        *("give up", "vanish", "crash", "restart", "lose", "cut", "mend"),
        *("halt store", "cut store", "expire", "watch anew"),
    )
}
