"""A journal with a bit of everything in it, written by a real broker through real clients.

Queues: `plain`, `urgent` (priorities), `short` (message TTL), `limited` (a delivery limit), `dead` (dead letters),
`gone` (deleted); a fan-out to several; an exchange that delays.
"""

from tests.support.core_driver import Client
from tests.unit.broker.journal.journal_world import DurableCore, get, persistent, reject
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.wire.field_tables import Table
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)

QUEUES: dict[str, Table] = {
    "plain": {},
    "urgent": {"x-max-priority": 3},
    "short": {"x-message-ttl": 600_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    "limited": {"x-delivery-limit": 5},
    "dead": {},
    "gone": {},
}


def declare_all(client: Client) -> None:
    for name, arguments in QUEUES.items():
        client.say(QueueDeclare(queue=name, durable=True, arguments=arguments))
    client.say(ExchangeDeclare(exchange="all", type="fanout", durable=True))
    for name in ("plain", "urgent", "short", "gone"):
        client.say(QueueBind(queue=name, exchange="all"))
    delaying: Table = {"x-delayed-type": "direct"}
    client.say(ExchangeDeclare(exchange="later", type="x-delayed-message", durable=True, arguments=delaying))
    client.say(QueueBind(queue="plain", exchange="later", routing_key="plain"))
    client.heard()


def rich_sample(segment_bytes: int, rounds: int = 5) -> DurableCore:
    """All operations, flushed; the node did not stop."""
    core = DurableCore(PlainDisk(), segment_bytes)
    client = core.client()
    declare_all(client)
    for number in range(rounds):
        one_round(core, client, number)
    client.say(QueueDelete(queue="gone"))
    client.heard()
    client.read(persistent("plain", b"the last but one"))
    client.read(persistent("plain", b"the last"))
    client.heard()
    return core


def one_round(core: DurableCore, client: Client, number: int) -> None:
    def name(text: str) -> bytes:
        return f"{text} {number}".encode()

    client.read(b"".join(persistent("", name(f"fan {turn}"), "all", priority=turn) for turn in range(5)))
    client.read(persistent("plain", name("plain") * 20) + persistent("plain", name("other"), expiration="5000000"))
    client.read(persistent("limited", name("limited")) + persistent("limited", name("limited too")))
    client.read(persistent("plain", name("delayed"), "later", headers={"x-delay": 50_000 + number}))
    client.read(persistent("plain", name("soon"), "later", headers={"x-delay": 10}))
    core.pass_ms(2_000)
    client.heard()
    # in order, out of order, and not at all
    tags = [get(client, "plain")[0] for _ in range(4)]
    client.say(BasicAck(tags[2]))
    client.say(BasicAck(tags[0]))
    client.say(BasicNack(tags[1]))
    urgent = get(client, "urgent")[0]
    client.say(BasicAck(urgent))
    reject(client, get(client, "limited")[0], requeue=True)
    reject(client, get(client, "short")[0], requeue=False)
    client.say(BasicGet(queue="short", no_ack=True))
    if number == 1:
        client.say(QueuePurge(queue="limited"))
        client.say(QueuePurge(queue="gone"))
    for queue, count in (("plain", 4), ("urgent", 3), ("short", 2), ("gone", 4)):
        for _ in range(count):
            client.say(BasicGet(queue=queue, no_ack=True))
    core.pass_ms(2_000)
    client.heard()
