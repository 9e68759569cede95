"""Real nodes that hold mirrored queues are killed, frozen and restarted under load, and no client's promise is broken.

Three nodes serve all tests; each test leaves them as it found them. Clients of nodes that live on notice a pause, and
nothing else: no client is refused, cancelled or cut off.
"""

import signal
import time

import pytest

from tests.cluster.mirrored import Scene, await_another_master, await_in_sync, mirror_everything, standing
from tests.cluster.promises import Load
from tests.cluster.trio import Trio, knows
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

KILLED_S_MAX = 30.0
"""A killed master is replaced at once. The new master delivers the backlog after a delivery lease; a busy machine adds
to it."""

FROZEN_S = 6.0
FROZEN_S_MAX = 40.0
"""Three seconds of silence, the wait of a new master before its first delivery, and the delay of a busy machine."""


@pytest.fixture(scope="module")
def file_trio(file_trio: Trio) -> Trio:
    mirror_everything(file_trio)
    return file_trio


def see_no_client_turned_away(load: Load, *cut: NodeProcess) -> None:
    """No publish was refused; consumers at nodes that ran all the while were not cancelled."""
    assert not load.ledger.refused
    spared = [
        consumer for consumer in load.consumers if not consumer.name.endswith(tuple(f" at {n.name}" for n in cut))
    ]
    assert spared
    assert not [consumer.name for consumer in spared if consumer.cancelled.is_set()]


def test_a_master_that_is_killed_is_replaced_and_clients_elsewhere_notice_a_pause(trio: Trio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    scene = Scene(trio, load, "of the killed", n1, cut=[n1])
    scene.populate()
    n1.kill()
    pause_s = scene.await_served(n2, n3)
    print(f"served again {pause_s:.2f} s after the master was killed")
    assert pause_s < KILLED_S_MAX
    await_another_master(trio, scene.queues, n1)
    load.await_progress()
    n1.start()
    await_in_sync(trio, scene.queues)
    see_no_client_turned_away(load, n1)
    scene.settle()


def test_the_queue_goes_on_without_a_killed_mirror_which_catches_up_later(trio: Trio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    scene = Scene(trio, load, "of a killed mirror", n1, cut=[n3])
    scene.populate()
    n3.kill()
    assert scene.await_served(n1, n2) < KILLED_S_MAX
    load.await_progress()
    n3.start()
    await_in_sync(trio, scene.queues)
    assert standing(trio, scene.work).master == n1.name
    see_no_client_turned_away(load, n3)
    scene.settle()


def test_masters_are_killed_in_turn(trio: Trio, load: Load) -> None:
    scene = Scene(trio, load, "passed on", trio.nodes[1], cut=trio.nodes)
    scene.populate()
    for _ in range(2):
        master = next(node for node in trio.nodes if node.name == standing(trio, scene.work).master)
        master.kill()
        await_another_master(trio, scene.queues, master)
        master.start()
        await_in_sync(trio, scene.queues)
        load.await_progress(100)
    scene.settle()


def test_all_nodes_killed_at_once_come_back_with_everything_durable(trio: Trio, load: Load) -> None:
    n1, n2, n3 = trio.nodes
    scene = Scene(trio, load, "of all killed", n1, cut=trio.nodes)
    for node in trio.nodes:
        scene.publish(scene.work, node)
        scene.publish(scene.row, node)
    scene.consume(scene.work, n2)
    load.await_progress()
    # this queue has no consumer yet
    assert load.ledger.waiting[scene.row] > 0
    trio.hang_up()
    for node in trio.nodes:
        node.process.send_signal(signal.SIGKILL)
    for node in trio.nodes:
        node.kill()
        trio.signal_etcd(node, signal.SIGKILL)
    trio.start(*trio.nodes)
    eventually(trio.is_whole, "all nodes reach one another")
    scene.consume(scene.row, n3)
    scene.settle([scene.work, scene.row])
    assert not knows(n1, scene.passing)


def test_a_master_that_freezes_is_replaced_and_takes_its_place_as_a_mirror(trio: Trio, load: Load) -> None:
    frozen = trio.nodes[2]
    scene = Scene(trio, load, "of the frozen", frozen, cut=[])
    scene.populate()
    frozen.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    pause_s = scene.await_served(*scene.others)
    print(f"served again {pause_s:.2f} s after the master froze")
    assert pause_s < FROZEN_S_MAX
    await_another_master(trio, scene.queues, frozen)
    eventually(lambda: time.monotonic() > began + FROZEN_S, "it was frozen for long enough")
    frozen.process.send_signal(signal.SIGCONT)
    scene.settle()
    see_no_client_turned_away(load, frozen)


def test_a_rolling_restart_loses_nothing(trio: Trio, load: Load) -> None:
    scene = Scene(trio, load, "rolling", trio.nodes[0], cut=trio.nodes)
    scene.populate()
    trio.hang_up()
    for node in trio.nodes:
        node.restart()
        await_in_sync(trio, scene.queues)
        load.await_progress(100)
    scene.settle()


def test_a_master_is_replaced_although_the_leader_of_etcd_dies_with_it(trio: Trio, load: Load) -> None:
    leading = trio.leader_of_etcd()
    scene = Scene(trio, load, "beside a leader", leading, cut=[leading])
    scene.populate()
    trio.signal_etcd(leading, signal.SIGKILL)
    leading.kill()
    pause_s = scene.await_served(*scene.others)
    print(f"served again {pause_s:.2f} s after the master and etcd's leader were killed")
    assert pause_s < FROZEN_S_MAX
    await_another_master(trio, scene.queues, leading)
    leading.start()
    await_in_sync(trio, scene.queues)
    see_no_client_turned_away(load, leading)
    scene.settle()
