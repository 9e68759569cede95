"""A queue that RabbitMQ itself does not reach, as its home node is down, is neither empty nor gone."""

import pytest

from tests.migrating.moving import Moving
from tests.support.rabbitmq import RabbitMQ

NODE = "rabbit@nowhere"


def move_home_to_a_node_that_is_down(server: RabbitMQ, vhost: str, queue: str) -> None:
    """What is left of a durable queue when its node is down: what is written of it, with that node in it."""
    done = server.ctl(
        "eval",
        f'Name = rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>), {{ok, Found}} = rabbit_amqqueue:lookup(Name), '
        f'Away = amqqueue:set_pid(Found, rabbit_misc:string_to_pid("<{NODE}.1.2.3>")), '
        "mnesia:transaction(fun() -> mnesia:write(rabbit_durable_queue, Away, write), "
        "mnesia:delete({rabbit_queue, Name}) end).",
    )
    assert "atomic" in done.stdout, done


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_queue_whose_home_node_is_down_refuses_the_move(more: tuple[str, ...], moving: Moving) -> None:
    moving.fill("bills", [b"one"])
    moving.fill("orders", [b"one"])
    move_home_to_a_node_that_is_down(moving.rabbitmq, moving.vhost, "orders")
    code, out, err = moving.run(*more)
    assert code == 1, (out, err)
    assert f"queues that RabbitMQ itself cannot reach: 1\n  queue 'orders' in '{moving.vhost}': down, at {NODE}" in out
    assert f"warren: queue 'orders' in '{moving.vhost}' is down at RabbitMQ" in err
    assert moving.vhost not in [row["name"] for row in moving.operator.read("vhosts")]
