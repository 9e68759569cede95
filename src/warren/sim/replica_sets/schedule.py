"""A random schedule of a replica set model: the next action, the clients, the operators, the faults.

Each run has its own rates: how often faults strike, which disks and links are slow, how much is published, whether
operators act. In most runs operators do nothing, so that faults are seen alone, too. Operators want other members or
another master, stop nodes, and start or stop a sync.

Not here: what actions do (`sim.replica_sets.world`).
"""

from random import Random

from warren.broker.replication.mirroring_policy import ALL, EXACTLY, NODES
from warren.sim.replica_sets.master import ModelJoiningMirror, ModelMaster
from warren.sim.replica_sets.metadata_store import ALONE
from warren.sim.replica_sets.world import Action, ReplicaSetWorld

WHOLE = 1_000
"""More than any node has unflushed: a node that stops on purpose loses nothing."""

OPERATOR_ACTIONS = ("want", "want", "want", "master", "master", "retreat", "stop", "sync")


class ModelOperators:
    """Draws the operators' next action."""

    def __init__(self, world: ReplicaSetWorld, draw: Random) -> None:
        self._world = world
        self._draw = draw
        self.rate = draw.choice((0.0, 0.0, 0.0, 0.01, 0.03, 0.06))
        # how often their policy has no automatic sync
        self._manual_rate = draw.choice((0.0, 0.3, 0.8))

    def next(self) -> list[Action]:
        """Possible actions of one kind."""
        world = self._world
        catching_up = self._catching_up()
        if catching_up and self._draw.random() < 0.5:
            return catching_up
        kind = self._draw.choice(OPERATOR_ACTIONS)
        if kind == "want":
            return [self._want()] if world.store.majority else []
        if kind == "master":
            return [self._want_another_master()] if world.store.majority else []
        if kind == "retreat":
            leads = [name for name, member in world.members.items() if member.up and member.master_replica is not None]
            return [("retreat", name, "", 0) for name in leads]
        if kind == "stop":
            return self.stopping()
        return world.waiting_for_sync()

    def _catching_up(self) -> list[Action]:
        """Masters with a sync that can be stopped."""
        return [
            ("cancel sync", name, "", 0)
            for name, member in self._world.members.items()
            if member.up
            and member.master_replica is not None
            and any(map(_goes_on, member.master_replica.joining_mirrors.values()))
        ]

    def stopping(self) -> list[Action]:
        """Stop the nodes that were about to stop."""
        return [
            ("crash", name, "", WHOLE) for name, member in self._world.members.items() if member.up and member.retreats
        ]

    def _want(self) -> Action:
        draw = self._draw
        names = list(self._world.members)
        syncs = int(draw.random() >= self._manual_rate)
        mode = draw.choice((ALL, EXACTLY, EXACTLY, NODES, NODES, ALONE))
        if mode == EXACTLY:
            return "want", mode, "", draw.randint(1, len(names)) * 2 + syncs
        if mode == NODES:
            return "want", mode, " ".join(draw.sample(names, draw.randint(1, len(names)))), syncs
        return "want", mode, "", syncs

    def _want_another_master(self) -> Action:
        """The current members without the master: one of them becomes master."""
        replica_set = self._world.store.replica_set
        others = [name for name in replica_set.members if name != replica_set.master] or list(self._world.members)
        others = self._draw.sample(others, self._draw.randint(1, len(others)))
        return "want", NODES, " ".join(others), int(self._draw.random() >= self._manual_rate)


def _goes_on(joining_mirror: ModelJoiningMirror) -> bool:
    return joining_mirror.reader is not None


PUBLISHES_MAX = 60

FAULTS = (
    "crash",
    "crash master",
    "link",
    "master's link",
    "cut",
    "store",
    "cut store",
    "expire",
    "doubt",
    "vanish",
    "watch anew",
)
REPAIRS = ("restart", "restart", "mend", "expire")


class RandomSchedule:
    """Draws actions."""

    def __init__(self, world: ReplicaSetWorld, seed: int) -> None:
        self.world = world
        self.random = Random(f"{seed}/rings")
        draw = self.random
        self.fault_rate = draw.choice((0.0, 0.01, 0.03, 0.06, 0.12))
        self.client_rate = draw.choice((0.1, 0.2, 0.35))
        self.publish_rate = draw.choice((0.1, 0.3, 0.6))
        self.timer_rate = draw.choice((0.0, 0.01, 0.05))
        self.most_at_once = draw.choice((1, 1, 3, 8))
        self.whole_death = draw.random() < 0.3
        # some faults never strike in a run, so that others are seen for longer, and some strike often
        self.faults = (*draw.choices(FAULTS, k=5), *REPAIRS)
        # how often a proposal or its answer gets lost
        self.doubt_rate = draw.choice((0.0, 0.0, 0.1, 0.4))
        self.operators = ModelOperators(world, draw)
        # how often a notification is heard in the same turn as a message
        self.amid_rate = draw.choice((0.0, 0.1, 0.5))
        names = list(world.members)
        # rarely drawn actions: of a slow disk, a slow watch, a slow link
        self.slow: dict[tuple[str, str], float] = {}
        for what in ("flush", "notify", "deliver", "feed", "propose itself", "answer", "notice", "apply"):
            for name in names:
                if draw.random() < 0.2:
                    self.slow[what, name] = draw.choice((0.02, 0.1, 0.3))

    def next_action(self) -> Action | None:
        """Any action, faults included."""
        if self.world.store.requests and self.random.random() < self.doubt_rate * self.fault_rate * 10:
            return self._one_of(self._faults(self.random.choice(("doubt", "vanish", "proposed", "proposed"))))
        draw = self.random.random()
        if draw < self.fault_rate:
            return self._fault()
        if draw < self.fault_rate + self.client_rate:
            return self._client()
        if draw < self.fault_rate + self.client_rate + self.timer_rate:
            return self._one_of(self.world.timers())
        if draw > 1 - self.operators.rate:
            return self._one_of(self.operators.next())
        return self._ordinary() or self._one_of(self.world.timers())

    def next_calm_action(self) -> Action | None:
        """The actions of a healed world; operators act, and time passes, when nothing else happens."""
        world = self.world
        for actions in (world.ordinary(), world.waiting_for_sync(), world.timers()):
            if actions:
                return self.random.choice(actions)
        return None

    def _one_of(self, actions: list[Action]) -> Action | None:
        return self.random.choice(actions) if actions else None

    def _ordinary(self) -> Action | None:
        actions = self.world.ordinary()
        if not actions:
            return None
        weights = [self.slow.get((what, name), 1.0) for what, name, _other, _number in actions]
        what, name, other, number = self.random.choices(actions, weights)[0]
        if what in ("deliver", "feed"):
            number = self.random.randint(1, self.most_at_once)
        if what == "deliver" and self.world.may_notify(name) and self.random.random() < self.amid_rate:
            what = "deliver and notify"
        return what, name, other, number

    # -- clients

    def _client(self) -> Action | None:
        world = self.world
        masters = [
            member.master_replica
            for member in world.members.values()
            if member.up and member.master_replica is not None
        ]
        if masters and self.random.random() > self.publish_rate:
            action = self._consumer(self.random.choice(masters))
            if action is not None:
                return action
        up = [name for name, member in world.members.items() if member.up]
        if not up or world.rules.published >= PUBLISHES_MAX:
            return None
        return "publish", self.random.choice(up), "", self.random.choice((0, 1, 2, 2, 3))

    def _consumer(self, master_replica: ModelMaster) -> Action | None:
        if not master_replica.is_open:
            return None
        name = master_replica.member.name
        draw = self.random.random()
        if master_replica.out and draw < 0.4:
            return "consume", name, "ack" if draw < 0.3 else "requeue", self.random.randrange(8)
        if master_replica.deliverable() and draw < 0.8:
            return "consume", name, "deliver", 0
        if master_replica.can_raise_watermark() and draw < 0.97:
            return "consume", name, "raise watermark", self.random.randrange(3)
        if draw > 0.97 and master_replica.arrived:
            return "consume", name, "purge", 0
        return None

    # -- faults

    def _fault(self) -> Action | None:
        return self._one_of(self._faults(self.random.choice(self.faults)))

    def _faults(self, kind: str) -> list[Action]:
        world = self.world
        members = world.members
        if kind in ("crash", "crash master"):
            up = [name for name, member in members.items() if member.up]
            if len(up) == 1 and not self.whole_death:
                return []
            kept = self.random.choice((0, 0, self.random.randrange(6)))
            return [
                ("crash", name, "", kept) for name in up if kind == "crash" or name == world.store.replica_set.master
            ]
        if kind == "restart":
            return [("restart", name, "", 0) for name, member in members.items() if not member.up]
        if kind in ("link", "master's link"):
            whole = [(one, other) for one, other, link in world.links.all() if one != other and not link.broken]
            return [("lose", *pair, 0) for pair in whole if kind == "link" or world.store.replica_set.master in pair]
        if kind == "cut":
            return [("cut", one, other, 0) for one in members for other in members if one != other]
        if kind == "mend":
            return [("mend", one, other, 0) for one, other in sorted(world.links.cut)]
        return self._store_faults(kind)

    def _store_faults(self, kind: str) -> list[Action]:
        store = self.world.store
        if kind == "store":
            return [("halt store", "", "", 0)]
        if kind == "cut store":
            return [("cut store", name, "", 0) for name in self.world.members]
        if kind == "expire":
            return [("expire", name, "", 0) for name in store.living if self._unreachable(name)]
        if kind == "proposed":
            return self._trouble_with_the_proposed()
        if kind == "watch anew":
            return [("watch anew", name, "", 0) for name, news in store.news.items() if len(news) > 1]
        requests = list(enumerate(store.requests))
        if kind == "doubt":
            return [("give up", one.proposer[0], "", number) for number, one in requests if not one.given_up]
        return [("vanish", "", "", number) for number, one in requests if one.given_up]

    def _trouble_with_the_proposed(self) -> list[Action]:
        """A node that a proposal concerns dies, or loses its master, before it hears of it."""
        world = self.world
        master = world.store.replica_set.master
        concerned = {name for request in world.store.requests for name in request.replica_set.synced_names()} - {master}
        troubles: list[Action] = []
        for name in sorted(concerned):
            link = world.links.between(name, master)
            if link is not None and not link.broken:
                troubles.append(("lose", name, master, 0))
            if world.members[name].up:
                troubles.append(("crash", name, "", 0))
        return troubles

    def _unreachable(self, name: str) -> bool:
        return not self.world.members[name].up or name in self.world.store.cut

    def heal(self) -> list[Action]:
        """The actions that repair everything."""
        world = self.world
        healing: list[Action] = [("mend", one, other, 0) for one, other in sorted(world.links.cut)]
        healing += [("cut store", name, "", 0) for name in sorted(world.store.cut)]
        if not world.store.majority:
            healing.append(("halt store", "", "", 0))
        if self.random.random() < 0.5:
            orphans = [number for number, one in enumerate(world.store.requests) if one.given_up]
            healing += [("vanish", "", "", number) for number in reversed(orphans)]
        stopping = self.operators.stopping()
        healing += stopping
        down = [name for name, member in world.members.items() if not member.up]
        return healing + [("restart", name, "", 0) for name in [*down, *[action[1] for action in stopping]]]
