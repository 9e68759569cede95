"""Faults of five nodes with mirrored queues: all those by which brokers are known to lose messages.

Each fault is injected under load, lasts for some seconds, and is repaired. Clients of nodes in a majority are served
meanwhile, as far as `served` says. After the repair all clients are served, all nodes are in sync, and every promise is
kept.

Not here: faults that a seed chooses (`storm`, `mirrored_storm`), a disk that is full (`test_mirrored_disk_full`).
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster.mirrored import Scene, await_in_sync
from tests.cluster.namespace_trio import NamespaceTrio
from tests.cluster.promises import Load
from tests.support.deadlines import eventually

HOSTS = ("n1", "n2", "n3", "n4", "n5")


@dataclass(frozen=True)
class Trouble:
    """`strike` gets the nodes; the master is the first of them, or, if `beside_leader`, the node with etcd's leader.

    `cut`: the numbers of nodes with clients that may be refused or cut off. `served`: those that must serve publishers
    while it lasts.
    """

    name: str
    strike: Callable[[NamespaceTrio, int], None]
    cut: tuple[int, ...] = ()
    served: tuple[int, ...] = ()
    beside_leader: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result; `paused_s` is the time until all clients that must be served were served."""

    confirmed: int
    redelivered: int
    paused_s: float
    complaints: tuple[str, ...]


def _kill(*numbers: int) -> Callable[[NamespaceTrio, int], None]:
    def strike(five: NamespaceTrio, _master: int) -> None:
        for number in numbers:
            five.nodes[number].process.send_signal(signal.SIGKILL)
        for number in numbers:
            five.nodes[number].kill()

    return strike


def _kill_all_with_etcd(five: NamespaceTrio, _master: int) -> None:
    five.hang_up()
    _kill(*range(len(HOSTS)))(five, 0)
    for node in five.nodes:
        five.signal_etcd(node, signal.SIGKILL)


def _kill_with_leader(five: NamespaceTrio, master: int) -> None:
    five.signal_etcd(five.nodes[master], signal.SIGKILL)
    five.nodes[master].kill()


def _freeze(five: NamespaceTrio, _master: int) -> None:
    five.nodes[0].process.send_signal(signal.SIGSTOP)


def _restart_in_turn(five: NamespaceTrio, _master: int) -> None:
    five.hang_up()
    for node in five.nodes:
        node.restart()
        eventually(five.is_whole, "all nodes reach one another")


def _halves(five: NamespaceTrio, _master: int) -> None:
    five.world.split(HOSTS[:2], HOSTS[2:])


def _majorities(five: NamespaceTrio, _master: int) -> None:
    """Every node reaches two neighbours, and no two reach the same."""
    for number, host in enumerate(HOSTS):
        five.world.cut(host, HOSTS[(number + 2) % len(HOSTS)])


def _alone(five: NamespaceTrio, _master: int) -> None:
    five.world.cut(*HOSTS)


def _mute(five: NamespaceTrio, _master: int) -> None:
    for other in HOSTS[1:]:
        five.world.cut_one_way(HOSTS[0], other)


def _deaf(five: NamespaceTrio, _master: int) -> None:
    for other in HOSTS[1:]:
        five.world.cut_one_way(other, HOSTS[0])


ALL = (0, 1, 2, 3, 4)
KILLS = (
    Trouble("the master is killed", _kill(0), cut=(0,), served=(1, 2, 3, 4)),
    Trouble("a mirror is killed", _kill(4), cut=(4,), served=(0, 1, 2, 3)),
    Trouble("the master and a mirror are killed", _kill(0, 1), cut=(0, 1), served=(2, 3, 4)),
    Trouble("all are killed, with their etcd members", _kill_all_with_etcd, cut=ALL),
    Trouble("the master is killed with etcd's leader", _kill_with_leader, cut=ALL, beside_leader=True),
    Trouble("the nodes are restarted in turn", _restart_in_turn, cut=ALL),
)
PAUSES = (
    Trouble("the master stands still (SIGSTOP)", _freeze, cut=(0,), served=(1, 2, 3, 4)),
    Trouble("cut: the master and a mirror from three", _halves, cut=(0, 1), served=(2, 3, 4)),
    Trouble("cut: every node reaches another majority", _majorities, cut=ALL),
    Trouble("cut: the master from all", _alone, cut=(0,), served=(1, 2, 3, 4)),
    Trouble("cut: no node hears the master", _mute, cut=(0,), served=(1, 2, 3, 4)),
    Trouble("cut: the master hears no node", _deaf, cut=(0,), served=(1, 2, 3, 4)),
)


def go_through(five: NamespaceTrio, trouble: Trouble, hold_s: float) -> Outcome:
    """Inject the fault into a healthy cluster, and wait until it is healthy again."""
    load = Load()
    try:
        return _go_through(five, trouble, hold_s, load)
    except AssertionError as error:
        load.ledger.complain(str(error))
        return Outcome(len(load.ledger.confirmed), load.ledger.redelivered, 0.0, tuple(load.ledger.complaints))
    finally:
        load.dismiss()
        _mend(five)


def _go_through(five: NamespaceTrio, trouble: Trouble, hold_s: float, load: Load) -> Outcome:
    nodes = five.nodes
    master = nodes.index(five.leader_of_etcd()) if trouble.beside_leader else 0
    mark = f"{trouble.name} {hold_s:g} {time.monotonic():.0f}"
    scene = Scene(five, load, mark, nodes[master], cut=[nodes[number] for number in trouble.cut])
    transient_is_gone = trouble.strike is _kill_all_with_etcd
    scene.populate(passing=not transient_is_gone)
    trouble.strike(five, master)
    began = time.monotonic()
    paused_s = scene.await_served(*[nodes[number] for number in trouble.served])
    eventually(lambda: time.monotonic() > began + hold_s, "it lasted long enough", 2 * hold_s + 60)
    _mend(five)
    await_in_sync(five, scene.queues[:2] if transient_is_gone else scene.queues)
    scene.settle([scene.work, scene.row] if transient_is_gone else ())
    ledger = load.ledger
    return Outcome(len(ledger.confirmed), ledger.redelivered, paused_s, tuple(ledger.complaints))


def _mend(five: NamespaceTrio) -> None:
    for node in five.nodes:
        if node.alive:
            node.process.send_signal(signal.SIGCONT)
    five.mend()
