"""Dead letters: their routes, their headers, and how often they may cycle."""

import time
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Received
from tests.wire.conftest import Unique

LIMITS: dict[str, dict[str, Any]] = {
    "rejected": {},
    "expired": {"x_message_ttl": 50},
    "maxlen": {"x_max_length": 0},
}


def queue_of(channel: Channel, **arguments: Any) -> str:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    queue: str = channel.call("queue.declare", exclusive=True, arguments=named).queue
    return queue


def fetch(channel: Channel, queue: str) -> Received:
    """The next message, as soon as there is one."""
    deadline = time.monotonic() + channel.connection.deadline_s
    while (received := channel.get(queue)) is None:
        assert time.monotonic() < deadline, f"nothing came to {queue}"
    return received


def reject(channel: Channel, queue: str) -> None:
    received = fetch_held(channel, queue)
    channel.send("basic.reject", delivery_tag=received.delivery_tag)


def fetch_held(channel: Channel, queue: str) -> Received:
    received = channel.get(queue, no_ack=False)
    assert received is not None, f"{queue} is empty"
    return received


def deaths(letter: Received) -> list[dict[str, Any]]:
    """The entries of x-death without their times."""
    entries = [dict(entry) for entry in letter.headers["x-death"]]
    for entry in entries:
        assert abs(entry.pop("time") - time.time()) < 60
    return entries


@pytest.mark.parametrize("reason", LIMITS)
def test_a_dead_letter_has_its_reason_and_queue(channel: Channel, unique: Unique, reason: str) -> None:
    exchange = unique("entrance")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="amq.direct", **LIMITS[reason])
    channel.call("queue.bind", queue=source, exchange=exchange)
    channel.call("queue.bind", queue=dead, exchange="amq.direct", routing_key=source)
    headers = {"mine": 1, "CC": ["copied"], "BCC": ["blind"]}
    channel.publish(exchange, source, b"body", {"headers": headers, "app_id": "a"})
    if reason == "rejected":
        reject(channel, source)
    letter = fetch(channel, dead)
    assert (letter.body, letter.exchange, letter.routing_key, letter.redelivered) == (
        b"body",
        "amq.direct",
        source,
        False,
    )
    assert letter.properties["app_id"] == "a"
    assert deaths(letter) == [
        {"count": 1, "reason": reason, "queue": source, "exchange": exchange, "routing-keys": [source, "copied"]}
    ]
    assert {name: value for name, value in letter.headers.items() if name != "x-death"} == {
        "mine": 1,
        "CC": ["copied"],
        "x-first-death-reason": reason,
        "x-first-death-queue": source,
        "x-first-death-exchange": exchange,
    }


def test_a_dead_letter_remembers_its_expiration_and_expires_no_more(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"", {"expiration": "50"})
    letter = fetch(channel, dead)
    assert "expiration" not in letter.properties
    (death,) = deaths(letter)
    assert (death["reason"], death["original-expiration"]) == ("expired", "50")


def test_a_letter_without_properties_gets_headers(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"x")
    reject(channel, source)
    assert set(fetch(channel, dead).properties) == {"headers"}


def test_a_new_routing_key_takes_the_copies_away(channel: Channel) -> None:
    dead, copied = queue_of(channel), queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"x", {"headers": {"CC": [copied]}})
    assert channel.purged(copied) == 1
    reject(channel, source)
    letter = fetch(channel, dead)
    assert letter.routing_key == dead
    assert "CC" not in letter.headers
    assert deaths(letter)[0]["routing-keys"] == [source, copied]
    assert channel.purged(copied) == 0


def test_without_a_new_routing_key_copies_are_sent_again(channel: Channel, unique: Unique) -> None:
    exchange = unique("dead")
    channel.call("exchange.declare", exchange=exchange, type="direct")
    first, second = queue_of(channel), queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange=exchange)
    channel.call("queue.bind", queue=first, exchange=exchange, routing_key=source)
    channel.call("queue.bind", queue=second, exchange=exchange, routing_key="copied")
    channel.publish("", source, b"x", {"headers": {"CC": ["copied"]}})
    reject(channel, source)
    for queue in (first, second):
        assert fetch(channel, queue).routing_key == source


def test_a_second_death_in_the_same_queue_is_counted(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"x")
    for round_no in (1, 2, 3):
        reject(channel, source)
        letter = fetch(channel, dead)
        assert [(death["queue"], death["count"]) for death in deaths(letter)] == [(source, round_no)]
        channel.publish("", source, b"x", letter.properties)


def test_the_newest_death_stands_first_and_the_first_is_remembered(channel: Channel) -> None:
    dead = queue_of(channel)
    expiring = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_message_ttl=50)
    rejecting = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=expiring)
    channel.publish("", rejecting, b"x")
    reject(channel, rejecting)
    letter = fetch(channel, dead)
    assert [(death["queue"], death["reason"]) for death in deaths(letter)] == [
        (expiring, "expired"),
        (rejecting, "rejected"),
    ]
    assert letter.headers["x-first-death-queue"] == rejecting
    assert letter.headers["x-first-death-reason"] == "rejected"


def test_a_letter_that_only_expires_does_not_circle(channel: Channel, unique: Unique) -> None:
    exchange = unique("back")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    first = queue_of(channel, x_message_ttl=50, x_dead_letter_exchange="amq.direct")
    second = queue_of(channel, x_message_ttl=50, x_dead_letter_exchange=exchange)
    witness = queue_of(channel)
    channel.call("queue.bind", queue=second, exchange="amq.direct", routing_key=first)
    for queue in (first, witness):
        channel.call("queue.bind", queue=queue, exchange=exchange)
    channel.publish("", first, b"round and round")
    # where it would come back to its first queue it comes to the witness
    fetch(channel, witness)
    assert channel.purged(first) + channel.purged(second) == 0


def test_a_letter_that_someone_rejects_may_circle(channel: Channel) -> None:
    waiting = queue_of(channel)
    working = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=waiting)
    channel.publish("", working, b"x")
    reject(channel, working)
    letter = fetch(channel, waiting)
    retry = queue_of(channel, x_message_ttl=50, x_dead_letter_exchange="", x_dead_letter_routing_key=working)
    for round_no in (1, 2):
        channel.publish("", retry, b"x", letter.properties)
        channel.await_counts(working, 1)
        reject(channel, working)
        letter = fetch(channel, waiting)
        counts = {death["reason"]: death["count"] for death in deaths(letter)}
        assert counts == {"rejected": round_no + 1, "expired": round_no}


def test_a_queue_may_be_its_own_dead_letter_queue_for_rejections(channel: Channel, unique: Unique) -> None:
    queue = unique("own")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.call("queue.declare", queue=queue, exclusive=True, arguments=arguments)
    channel.publish("", queue, b"again")
    reject(channel, queue)
    letter = fetch(channel, queue)
    assert (letter.body, letter.redelivered) == (b"again", False)
    assert deaths(letter)[0]["count"] == 1


def test_dead_letters_keep_their_order(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_message_ttl=50, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    bodies = [str(number).encode() for number in range(20)]
    for body in bodies:
        channel.publish("", source, body)
    assert [fetch(channel, dead).body for _ in bodies] == bodies


def test_several_rejected_at_once_are_all_dead_letters(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    for body in (b"a", b"b", b"c"):
        channel.publish("", source, body)
        fetch_held(channel, source)
    channel.send("basic.nack", delivery_tag=0, multiple=True)
    assert [fetch(channel, dead).body for _ in range(3)] == [b"a", b"b", b"c"]


def test_messages_that_a_full_queue_drops_or_rejects_are_dead_lettered(channel: Channel) -> None:
    for overflow, left, lost in (("drop-head", b"b", b"a"), ("reject-publish-dlx", b"a", b"b")):
        dead = queue_of(channel)
        source = queue_of(
            channel, x_max_length=1, x_overflow=overflow, x_dead_letter_exchange="", x_dead_letter_routing_key=dead
        )
        channel.publish("", source, b"a")
        channel.publish("", source, b"b")
        letter = fetch(channel, dead)
        assert (letter.body, deaths(letter)[0]["reason"]) == (lost, "maxlen")
        assert fetch(channel, source).body == left


def test_a_plain_refusal_is_no_dead_letter(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(
        channel, x_max_length=0, x_overflow="reject-publish", x_dead_letter_exchange="", x_dead_letter_routing_key=dead
    )
    channel.confirm()
    channel.publish("", source, b"a")
    channel.expect("basic.nack", delivery_tag=1)
    assert channel.purged(dead) == 0


@pytest.mark.parametrize("method", ["queue.purge", "queue.delete"])
def test_purged_and_deleted_messages_are_no_dead_letters(channel: Channel, method: str) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"a")
    assert channel.call(method, queue=source).message_count == 1
    assert channel.purged(dead) == 0


def test_a_missing_dead_letter_exchange_loses_the_letter_and_nothing_else(channel: Channel) -> None:
    source = queue_of(channel, x_dead_letter_exchange="not-declared")
    channel.publish("", source, b"lost")
    channel.publish("", source, b"kept")
    reject(channel, source)
    assert fetch(channel, source).body == b"kept"


def test_an_x_death_that_is_no_list_is_written_anew(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"x", {"headers": {"x-death": "odd", "x-first-death-reason": "mine"}})
    reject(channel, source)
    letter = fetch(channel, dead)
    assert [death["count"] for death in deaths(letter)] == [1]
    assert letter.headers["x-first-death-reason"] == "mine"


def test_a_message_with_no_time_dies_at_once_into_its_exchange(channel: Channel) -> None:
    dead = queue_of(channel)
    source = queue_of(channel, x_message_ttl=0, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", source, b"x")
    assert deaths(fetch(channel, dead))[0]["reason"] == "expired"
