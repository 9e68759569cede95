"""Faults of the machines behind a virtual address, and their effect on clients.

Not here: the clients (`visitors`), the machines (`front_door`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.ha.front_door import VIRTUAL, FrontDoor
from tests.ha.visitors import QUEUE, Visitors
from tests.support.namespaces import CLIENTS
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

HOLD_S = 12.0
"""Long enough for heartbeats, checks and elections to have noticed."""


@dataclass(frozen=True)
class Trouble:
    """`strike` injects the fault and returns its repair. `pauses`: no client is served while it lasts."""

    name: str
    strike: Callable[[FrontDoor], Callable[[], None]]
    pauses: bool = False


@dataclass(frozen=True)
class Outcome:
    confirmed: int
    came_again: int
    longest_wait_s: float
    lost: int


def _kill(what: str, active: bool) -> Callable[[FrontDoor], Callable[[], None]]:
    def strike(door: FrontDoor) -> Callable[[], None]:
        machine = door.machines[_balancer(door, active)]
        machine.kill(what)
        return machine.start_haproxy if what == "haproxy" else machine.start_keepalived

    return strike


def _kill_node(master: bool) -> Callable[[FrontDoor], Callable[[], None]]:
    def strike(door: FrontDoor) -> Callable[[], None]:
        node = next(node for node in door.nodes if (node is _master(door)) == master)
        node.kill()
        return node.start

    return strike


def kill_first_node(door: FrontDoor) -> Callable[[], None]:
    door.nodes[0].kill()
    return door.nodes[0].start


def _unplug_balancer(active: bool) -> Callable[[FrontDoor], Callable[[], None]]:
    def strike(door: FrontDoor) -> Callable[[], None]:
        door.world.unplug(_balancer(door, active))
        return door.world.heal

    return strike


def _unplug_node(master: bool) -> Callable[[FrontDoor], Callable[[], None]]:
    def strike(door: FrontDoor) -> Callable[[], None]:
        of_master = door.hosts[door.nodes.index(_master(door))]
        door.world.unplug(of_master if master else next(host for host in door.hosts if host != of_master))
        return door.world.heal

    return strike


def _balancer(door: FrontDoor, active: bool) -> str:
    holder = door.holder()
    assert holder is not None
    return holder if active else door.other(holder)


def _master(door: FrontDoor) -> NodeProcess:
    with door.world.inside(CLIENTS):
        told = Operator(door.nodes[0].addresses["http"]).read("queues", "/", QUEUE)
    return next(node for node in door.nodes if node.name == told["node"])


TROUBLES = (
    Trouble("HAProxy that has the address is killed", _kill("haproxy", active=True)),
    Trouble("the other HAProxy is killed", _kill("haproxy", active=False)),
    Trouble("Keepalived that has the address is killed", _kill("keepalived", active=True)),
    Trouble("the other Keepalived is killed", _kill("keepalived", active=False)),
    Trouble("the queue's master is killed", _kill_node(master=True)),
    Trouble("a node with a mirror is killed", _kill_node(master=False)),
    Trouble("the cable of the balancer that has the address is cut", _unplug_balancer(active=True)),
    Trouble("the cable of the other balancer is cut", _unplug_balancer(active=False)),
    Trouble("the cable of the master's node is cut", _unplug_node(master=True)),
    Trouble("the cable of a mirror's node is cut", _unplug_node(master=False)),
)


def go_through(door: FrontDoor, trouble: Trouble, hold_s: float = HOLD_S) -> Outcome:
    """From a door that is open to one that is open again, with clients all the while."""
    visitors = Visitors(door.world)
    visitors.begin()
    try:
        _await_served(door, visitors)
        visitors.forget_waiting()
        mend = trouble.strike(door)
        began = time.monotonic()
        while time.monotonic() < began + hold_s:
            time.sleep(0.1)
        if not trouble.pauses:
            _await_served(door, visitors)
        mend()
        door.eventually(lambda: any(machine.holds(VIRTUAL) for machine in door.machines.values()))
        _await_served(door, visitors)
    finally:
        lost = visitors.end()
    door.await_open()
    return Outcome(len(visitors.confirmed), visitors.came_again, visitors.longest_wait_s(), len(lost))


def _await_served(door: FrontDoor, visitors: Visitors) -> None:
    door.eventually(lambda: visitors.are_served() or visitors.trouble is not None)
