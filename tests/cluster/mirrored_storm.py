"""Three nodes with mirrored queues on hosts of their own, and a series of faults that a seed chooses.

A round is one fault: nodes are killed, frozen or restarted, or their network is cut, for some seconds. After it all
nodes are back, all members are in sync and every client is served. At the end no confirmed message is missing.

Not here: the queues and their clients (`mirrored`), faults of queues that are not mirrored (`storm`), the number of
rounds.
"""

import random
import signal
import time

from tests.cluster.mirrored import Scene, await_in_sync, mirror_everything, standing
from tests.cluster.namespace_trio import HOSTS, NamespaceTrio
from tests.cluster.promises import Load
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

HOLD_S = (0.0, 1.0, 4.0, 10.0, 30.0)


class MirroredStorm:
    """Every client may be cut off; one queue is not durable, and its nodes are never all killed."""

    def __init__(self, trio: NamespaceTrio, seed: int) -> None:
        self._trio = trio
        self._chance = random.Random(seed)
        self.load = Load()
        mirror_everything(trio)
        self._scene = Scene(trio, self.load, "in the storm", self._chance.choice(trio.nodes), cut=trio.nodes)
        self._scene.populate()
        trio.hang_up()

    def round(self) -> str:
        """All kinds of faults."""
        kinds = (self._kill, self._kill_with_etcd, self._freeze, self._restart, self._cut_off, self._part, self._deafen)
        victim = self._victim()
        done = self._chance.choice(kinds)(victim)
        hold_s = self._chance.choice(HOLD_S)
        time.sleep(hold_s)
        began = time.monotonic()
        self._mend()
        await_in_sync(self._trio, self._scene.queues)
        self.load.await_everybody()
        return f"{done} for {hold_s:g} s; all in sync and served after {time.monotonic() - began:.1f} s"

    def _victim(self) -> NodeProcess:
        """A node, in most cases the master."""
        if self._chance.random() < 0.6:
            master = standing(self._trio, self._scene.work).master
            return next(node for node in self._trio.nodes if node.name == master)
        return self._chance.choice(self._trio.nodes)

    def _kill(self, node: NodeProcess) -> str:
        node.kill()
        return f"{node.name} killed"

    def _kill_with_etcd(self, node: NodeProcess) -> str:
        self._trio.signal_etcd(node, signal.SIGKILL)
        node.kill()
        return f"{node.name} and its member killed"

    def _freeze(self, node: NodeProcess) -> str:
        node.process.send_signal(signal.SIGSTOP)
        return f"{node.name} frozen"

    def _restart(self, node: NodeProcess) -> str:
        node.restart()
        return f"{node.name} restarted"

    def _cut_off(self, node: NodeProcess) -> str:
        self._trio.world.cut(*_host_and_others(node))
        return f"{node.name} cut off"

    def _part(self, node: NodeProcess) -> str:
        host, *others = _host_and_others(node)
        other = self._chance.choice(others)
        self._trio.world.cut(host, other)
        return f"{node.name} parted from {other}"

    def _deafen(self, node: NodeProcess) -> str:
        host, *others = _host_and_others(node)
        mute = self._chance.random() < 0.5
        for other in others:
            self._trio.world.cut_one_way(*((host, other) if mute else (other, host)))
        return f"{node.name} {'mute' if mute else 'deaf'}"

    def _mend(self) -> None:
        for node in self._trio.nodes:
            if node.alive:
                node.process.send_signal(signal.SIGCONT)
        self._trio.mend()
        eventually(self._trio.is_whole, "all nodes reach one another")

    def finish(self) -> None:
        """Check that every promise is kept."""
        self._scene.settle()

    def dismiss(self) -> None:
        self.load.dismiss()


def _host_and_others(node: NodeProcess) -> list[str]:
    host = node.name.partition("@")[2]
    return [host, *[other for other in HOSTS if other != host]]
