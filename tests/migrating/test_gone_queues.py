"""A queue that is deleted at Warren during the move: its remaining messages stay in RabbitMQ, and move later."""

from tests.migrating.moving import Moving, everything_in
from tests.support.deadlines import eventually
from warren.cli.migrate.queues import MARK

FIRST, REST = 10, 500


def length_at_warren(moving: Moving) -> int:
    rows = moving.operator.read("queues", moving.vhost)
    return sum(row["messages"] for row in rows if row["name"] == "orders")


def reasons(moving: Moving) -> str:
    rows = [row for row in moving.operator.read("shovels") if row["vhost"] == moving.vhost]
    return "; ".join(row.get("reason", "") for row in rows)


def send_what_has_no_queue_elsewhere(moving: Moving) -> None:
    """A policy for every exchange of RabbitMQ's, which comes along."""
    channel = moving.at_source()
    channel.declare_exchange("lost", "fanout", durable=True)
    channel.declare_queue("found", durable=True)
    channel.bind_queue("found", "lost", "")
    value = {"pattern": ".*", "definition": {"alternate-exchange": "lost"}, "apply-to": "exchanges"}
    moving.source_operator._change("PUT", ["policies", moving.vhost, "catch"], value)


def leave_a_road_of_another_version(moving: Moving) -> None:
    """As an interrupted move leaves it, without what keeps policies away from it."""
    moving.run("--definitions-only")
    road = {"type": "fanout", "durable": True, "arguments": MARK}
    moving.operator._change("PUT", ["exchanges", moving.vhost, "migrate-orders"], road)


def test_the_rest_of_a_queue_that_was_deleted_at_warren_waits_at_rabbitmq_until_it_is_there_again(
    moving: Moving,
) -> None:
    moving.fill("orders", [b"%d" % number for number in range(FIRST)])
    send_what_has_no_queue_elsewhere(moving)
    leave_a_road_of_another_version(moving)
    command = moving.begin("--follow")
    command.await_line("step 1")
    eventually(lambda: length_at_warren(moving) == FIRST)
    channel = moving.at_warren()
    channel.delete_queue("orders")
    rest = [b"%d" % number for number in range(FIRST, FIRST + REST)]
    moving.fill("orders", rest)
    eventually(lambda: "the destination has no queue" in reasons(moving), lambda: reasons(moving))
    channel.declare_queue("orders", durable=True)
    eventually(lambda: length_at_warren(moving) == REST, lambda: str(length_at_warren(moving)))
    command.press_enter()
    code, err = command.end()
    assert code == 0, (command.out, err)
    assert everything_in(channel, "orders") == rest
    assert everything_in(channel, "found") == []
    assert f"{FIRST + REST} arrived" in command.out


def test_a_queue_that_is_gone_at_warren_holds_up_no_other_and_comes_with_the_next_run(moving: Moving) -> None:
    moving.fill("orders", [b"first"])
    command = moving.begin("--follow")
    command.await_line("step 1")
    eventually(lambda: length_at_warren(moving) == 1)
    channel = moving.at_warren()
    channel.delete_queue("orders")
    rest = [b"%d" % number for number in range(REST)]
    moving.fill("orders", rest)
    eventually(lambda: "the destination has no queue" in reasons(moving), lambda: reasons(moving))
    command.press_enter()
    code, err = command.end()
    assert code == 1, (command.out, err)
    assert f"queue 'orders' in '{moving.vhost}' was deleted at Warren: the rest stays at RabbitMQ" in err
    assert f"it was deleted at Warren, with the messages that had arrived; {REST} are still at RabbitMQ" in command.out
    assert moving.shovels() == []
    assert moving.at_source().declare_queue("orders", passive=True).messages == REST
    code, out, err = moving.run()
    assert code == 0, (out, err)
    assert everything_in(channel, "orders") == rest
