"""A publisher repeats all unconfirmed messages while the masters of its mirrored queues are killed one after another:
each message is there once, and none is missing."""

import threading

import pytest

from tests.cluster.mirrored import await_in_sync, mirror_everything, standing
from tests.cluster.trio import Trio, declare, knows
from tests.durability.repeating import Repeater
from tests.durability.visiting import bodies
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.timeout(240)

DURABLE, PASSING = "mirrored once", "mirrored once, passing"
LOAD = 1_000
KILLS = 2


def master_of(trio: Trio, queue: str) -> NodeProcess:
    name = standing(trio, queue).master
    return next(node for node in trio.nodes if node.name == name)


def test_no_message_is_lost_or_doubled_when_its_publisher_repeats_it_at_the_next_master(fresh_trio: Trio) -> None:
    mirror_everything(fresh_trio)
    channel = fresh_trio.channel(fresh_trio.nodes[0])
    for queue in (DURABLE, PASSING):
        declare(channel, queue, durable=queue == DURABLE)
    for node in fresh_trio.nodes:
        eventually(lambda node=node: knows(node, DURABLE) and knows(node, PASSING), "all know the queues")  # type: ignore[misc]
    await_in_sync(fresh_trio, [DURABLE, PASSING])
    repeaters = {queue: Repeater(queue, "", queue, seed) for seed, queue in enumerate((DURABLE, PASSING))}
    for _ in range(KILLS):
        master = master_of(fresh_trio, DURABLE)
        others = [node for node in fresh_trio.nodes if node is not master]
        # both publish where the master is, and come back elsewhere
        lives = [threading.Thread(target=one.live, args=(master.amqp,)) for one in repeaters.values()]
        for life in lives:
            life.start()
        goal = min(one.next_id for one in repeaters.values()) + LOAD
        eventually(lambda goal=goal: all(one.next_id > goal for one in repeaters.values()), "the load is there")  # type: ignore[misc]
        master.kill()
        for life in lives:
            life.join()
        for repeater in repeaters.values():
            repeater.finish(others[0].amqp)
        master.start()
        await_in_sync(fresh_trio, [DURABLE, PASSING])
    for queue, repeater in repeaters.items():
        wanted = [b"%d" % number for number in range(repeater.next_id)]
        assert sorted(bodies(fresh_trio.nodes[2], queue)) == sorted(wanted), queue
        assert repeater.repeated > 0
        # the queue knows the ids of all its messages
        repeater.unsure = dict.fromkeys(range(max(0, repeater.next_id - 500), repeater.next_id))
        repeater.finish(fresh_trio.nodes[1].amqp)
        assert bodies(fresh_trio.nodes[0], queue) == [], queue
