"""A series of network faults that a seed chooses, in a cluster with clients that record every promise.

A round is one fault of some seconds. After it all nodes reach one another and every client is served. At the end no
confirmed message is missing, and every node knows every declared queue, and no deleted one.

Not here: the hosts (`namespace_trio`), messages and promises (`promises`), the number of rounds.
"""

import itertools
import random
import time

from tests.cluster.namespace_trio import HOSTS, NamespaceTrio
from tests.cluster.promises import PAUSE_S, Client, Ledger, Load
from tests.cluster.trio import declare, knows, refusal
from tests.support.amqp_client import Channel
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess

HANDLINGS = ("ignore", "pause_minority", "autoheal")
HOLD_S = (1.0, 4.0, 8.0, 16.0)


class Declarer(Client):
    """Declares durable queues at a node, and deletes every second one."""

    def __init__(self, ledger: Ledger, node: NodeProcess) -> None:
        self.kept: set[str] = set()
        self.gone: set[str] = set()
        self.refused = 0
        self._number = 0
        super().__init__(ledger, node, "declared ones", may_be_cut=True)

    def work(self, channel: Channel) -> None:
        while not self.over.wait(5 * PAUSE_S):
            self._number += 1
            queue = f"{self._number} declared at {self._node.name}"
            if self._told(channel, "queue.declare", queue=queue, durable=True):
                self.kept.add(queue)
                if self._number % 2:
                    continue
                self.kept.remove(queue)
                if self._told(channel, "queue.delete", queue=queue):
                    self.gone.add(queue)
                    continue
            self.refused += 1
            channel = channel.connection.channel()

    def _told(self, channel: Channel, method: str, **fields: object) -> bool:
        """True if the change was made; a refused change may be made later."""
        channel.send(method, **fields)
        answer = channel.next(DEADLINE_S)
        if answer.name == f"{method}-ok":
            return True
        assert answer.name == "channel.close", f"{answer.name} {answer.fields}"
        assert "the nodes of the cluster could not agree" in answer.reply_text, answer.fields
        channel.send("channel.close-ok")
        return False


class Storm:
    """The faults, and the clients of three nodes."""

    def __init__(self, trio: NamespaceTrio, seed: int) -> None:
        self._trio = trio
        self._chance = random.Random(seed)
        self.load = Load()
        for place, home in enumerate(trio.nodes):
            before, after = trio.nodes[place - 1], trio.nodes[place - 2]
            for queue in (f"storm at {home.name}", f"row at {home.name}"):
                declare(trio.channel(home), queue, durable=True)
                self.load.on(queue, publishing=before, consuming=after, may_be_cut=True)
            self.load.on(f"storm at {home.name}", publishing=home, consuming=home, may_be_cut=True)
        trio.hang_up()
        self.declarers = [Declarer(self.load.ledger, node) for node in trio.nodes]

    def round(self) -> str:
        """All kinds of faults."""
        kinds = (self._cut_off, self._part, self._deafen, self._shatter, self._hush, self._slow)
        done = self._chance.choice(kinds)()
        hold_s = self._chance.choice(HOLD_S)
        time.sleep(hold_s)
        self._trio.world.heal()
        calm_s = eventually(self._trio.is_whole, "all nodes reach one another")
        self.load.await_everybody()
        return f"{done} for {hold_s:g} s; whole again after {calm_s:.1f} s"

    def _cut_off(self) -> str:
        host, *others = self._some(3)
        self._trio.world.split([host], others)
        return f"{host} cut off"

    def _part(self) -> str:
        one, other = self._some(2)
        self._trio.world.cut(one, other)
        return f"{one} and {other} parted"

    def _deafen(self) -> str:
        host, *others = self._some(3)
        for other in others[: self._chance.choice((1, 2))]:
            pair = (host, other) if self._chance.random() < 0.5 else (other, host)
            self._trio.world.cut_one_way(*pair)
        return f"{host} cut in one direction"

    def _shatter(self) -> str:
        self._trio.world.split(*[[host] for host in HOSTS])
        return "all parted"

    def _hush(self) -> str:
        one, other = self._some(2)
        self._trio.detour(one, other).silence(towards=self._trio.world.address(one))
        return f"{other} not heard by {one}"

    def _slow(self) -> str:
        for pair in itertools.combinations(HOSTS, 2):
            self._trio.detour(*pair).delay_s = self._chance.uniform(0.0, 0.3)
        return "all slow"

    def _some(self, count: int) -> list[str]:
        return self._chance.sample(HOSTS, count)

    def finish(self) -> None:
        """Check that every promise is kept."""
        for declarer in self.declarers:
            declarer.dismiss()
        self.load.settle()
        kept = set().union(*[declarer.kept for declarer in self.declarers])
        gone = set().union(*[declarer.gone for declarer in self.declarers])
        for node in self._trio.nodes:
            missing = {queue for queue in kept if not knows(node, queue)}
            assert not missing, f"{node.name} does not know of {len(missing)}: {sorted(missing)[:5]}"
            back = {queue for queue in gone if refusal(node, "queue.declare", queue=queue, passive=True)[0] != 404}
            assert not back, f"{node.name} still has {len(back)}: {sorted(back)[:5]}"

    def dismiss(self) -> None:
        for declarer in self.declarers:
            declarer.dismiss()
        self.load.dismiss()
