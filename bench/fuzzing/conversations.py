"""Valid conversations of a client, as the input of mutations.

A conversation is a list of frames, each a type and a payload; its sender adds the channel. The names are few, so that
attackers share queues and exchanges.

Not here: the mutations (`mutations`).
"""

import random
from decimal import Decimal

from warren.wire.field_tables import Table, Timestamp
from warren.wire.frames import BODY, HEADER, METHOD
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
    encode_method,
)
from warren.wire.properties import Properties, encode_header_payload

Frame = tuple[int, bytes]
Conversation = list[Frame]

QUEUES = tuple(f"q{number}" for number in range(6))
EXCHANGES = {
    "direct": "direct",
    "fanout": "fanout",
    "topic": "topic",
    "headers": "headers",
    "hash": "x-consistent-hash",
    "delayed": "x-delayed-message",
}
KEYS = ("", "1", "q0", "q3", "a.b.c", "*.b.#", "#.#", "k" * 255)
CAPABILITIES: Table = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "basic.nack": True,
    "authentication_failure_close": True,
}
EDGES = (0, 1, -1, 127, 255, 32767, 65535, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63))
QUEUE_ARGUMENTS = (
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-delivery-limit",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-overflow",
    "x-single-active-consumer",
    "x-queue-type",
    "x-priority",
    "alternate-exchange",
    "x-delayed-type",
    "hash-header",
    "x-match",
)
MESSAGE_HEADERS = ("x-death", "x-delay", "CC", "BCC", "count", "a", "x-first-death-queue")


def said(*methods: Method) -> Conversation:
    """Methods as the frames of a conversation."""
    return [(METHOD, encode_method(1, method)[7:-1]) for method in methods]


def handshake(heartbeat_s: int, frame_max: int = 131072) -> list[bytes]:
    """Everything up to connection.open, one element a frame."""
    return [
        b"AMQP\x00\x00\x09\x01",
        encode_method(0, ConnectionStartOk("PLAIN", b"\0guest\0guest", {"capabilities": CAPABILITIES})),
        encode_method(0, ConnectionTuneOk(2047, frame_max, heartbeat_s)),
        encode_method(0, ConnectionOpen("/")),
    ]


def published(exchange: str, key: str, bodies: list[bytes], properties: Properties, mandatory: bool) -> Conversation:
    header = encode_header_payload(properties, sum(map(len, bodies)))
    return [*said(BasicPublish(exchange, key, mandatory)), (HEADER, header), *((BODY, body) for body in bodies)]


def random_value(rng: random.Random, depth: int = 0) -> object:
    """A value for a field table, often an edge case."""
    kind = rng.randrange(11 if depth < 6 else 8)
    scalars: tuple[object, ...] = (
        rng.choice(EDGES),
        rng.choice(KEYS),
        "9" * rng.choice((1, 16, 19, 31, 32, 255)),
        rng.random() < 0.5,
        None,
        Decimal(rng.getrandbits(32)).scaleb(-rng.randrange(9)),
        rng.choice((b"\xff\xfe", Timestamp(2**64 - 1), 1.5)),
        rng.choice(
            (*QUEUES, *EXCHANGES, "drop-head", "reject-publish-dlx", "classic", "rejected", "expired", "z" * 300)
        ),
    )
    if kind < 8:
        return scalars[kind]
    if kind == 8:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return random_table(rng, (*MESSAGE_HEADERS, "queue", "reason", "time"), depth + 1)


def random_table(rng: random.Random, names: tuple[str, ...], depth: int = 0) -> Table:
    return {rng.choice(names): random_value(rng, depth) for _ in range(rng.randrange(4))}


def forged_deaths(rng: random.Random, queue: str) -> Table:
    """The x-death header of a message that was dead-lettered before, for every reason."""
    reasons = ("expired", "maxlen", "rejected", "delivery_limit")
    deaths = [{"queue": queue, "reason": reason, "count": rng.choice(EDGES)} for reason in reasons]
    return {"x-death": [*deaths, random_value(rng)]}


def deadly(rng: random.Random) -> Table:
    """Arguments of a queue that dead-letters its messages."""
    limits = ("x-message-ttl", "x-max-length", "x-max-length-bytes", "x-delivery-limit")
    arguments: Table = {rng.choice(limits): rng.randrange(3) for _ in range(2)}
    arguments["x-dead-letter-exchange"] = rng.choice(("", "amq.fanout", *EXCHANGES))
    if rng.random() < 0.5:
        arguments["x-dead-letter-routing-key"] = rng.choice((*QUEUES, *KEYS, "z" * 300))
    if rng.random() < 0.3:
        arguments["x-overflow"] = rng.choice(("reject-publish", "reject-publish-dlx"))
    return arguments


def random_properties(rng: random.Random) -> Properties:
    properties = Properties(delivery_mode=rng.choice((None, 1, 2)))
    if rng.random() < 0.5:
        properties.headers = random_table(rng, MESSAGE_HEADERS)
    if rng.random() < 0.2:
        properties.expiration = rng.choice(("0", "1", "60000", "-1", "9" * 30, "x"))
    if rng.random() < 0.2:
        properties.priority = rng.randrange(256)
        properties.reply_to = rng.choice(("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x", "q1"))
    if rng.random() < 0.1:
        properties.user_id = rng.choice(("guest", "root", ""))
        properties.timestamp = rng.choice((0, 2**64 - 1))
    return properties


def random_publish(rng: random.Random) -> Conversation:
    exchange = rng.choice(("", "", "amq.topic", "amq.headers", "nowhere", *EXCHANGES))
    bodies = [rng.randbytes(rng.choice((0, 1, 16, 100, 4088))) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 4)))]
    return published(exchange, rng.choice((*QUEUES, *KEYS)), bodies, random_properties(rng), rng.random() < 0.2)


def random_fate(rng: random.Random) -> Conversation:
    """A message with properties that expire it, delay it, or route it to many queues."""
    queue = rng.choice(QUEUES)
    if rng.random() < 0.4:
        return published("", queue, [b"x"], Properties(headers=forged_deaths(rng, queue)), False)
    if rng.random() < 0.5:
        delay = rng.choice((random_value(rng), "9" * rng.randrange(1, 40), rng.choice(EDGES)))
        return published("delayed", queue, [b"x"], Properties(headers={"x-delay": delay}), False)
    copies: Table = {rng.choice(("CC", "BCC")): [*QUEUES, random_value(rng)]}
    return published(rng.choice(("", "direct")), queue, [b"x"], Properties(headers=copies, expiration="0"), False)


def random_declaration(rng: random.Random) -> Conversation:
    queue, other = rng.choice((*QUEUES, "")), rng.choice(tuple(EXCHANGES))
    exchange = rng.choice(tuple(EXCHANGES))
    table = random_table(rng, QUEUE_ARGUMENTS) if rng.random() < 0.6 else {}
    unused, durable, internal, auto_delete, nowait = (rng.random() < chance for chance in (0.1, 0.3, 0.2, 0.3, 0.2))
    kind = EXCHANGES[exchange]
    inner: Table = {"x-delayed-type": "direct"} if exchange == "delayed" else {}
    choices: tuple[Method, ...] = (
        QueueDeclare(queue, unused, durable, internal, auto_delete, nowait, table),
        QueueDeclare(rng.choice(QUEUES), arguments=deadly(rng)),
        QueueDeclare(rng.choice(QUEUES), arguments=deadly(rng)),
        QueueDeclare(rng.choice(QUEUES), auto_delete=True, arguments=deadly(rng)),
        QueueDelete(queue, unused, durable, nowait),
        QueuePurge(queue, nowait),
        QueueBind(queue, exchange, rng.choice(KEYS), nowait, table),
        QueueUnbind(queue, exchange, rng.choice(KEYS), table),
        ExchangeDeclare(exchange, kind, False, durable, auto_delete, internal, nowait, {**table, **inner}),
        ExchangeDeclare(exchange, kind, arguments=inner),
        ExchangeDelete(exchange, unused, nowait),
        ExchangeBind(exchange, other, rng.choice(KEYS), nowait, table),
        ExchangeUnbind(exchange, other, rng.choice(KEYS), nowait, table),
    )
    return said(rng.choice(choices))


def random_consuming(rng: random.Random) -> Conversation:
    queue = rng.choice((*QUEUES, "", "amq.rabbitmq.reply-to"))
    tag = rng.choice((0, 1, 1, 2, 3, 2**63 - 1, -1))
    flags = [rng.random() < 0.4 for _ in range(3)]
    table = random_table(rng, QUEUE_ARGUMENTS) if rng.random() < 0.3 else {}
    choices: tuple[Method, ...] = (
        BasicConsume(queue, rng.choice(("", "t", "t" * 255)), False, flags[0], False, flags[1], table),
        BasicConsume(queue, no_ack=flags[0]),
        BasicCancel("t", flags[0]),
        BasicGet(queue, flags[0]),
        BasicAck(tag, flags[0]),
        BasicAck(1, False),
        BasicNack(tag, flags[0], flags[1]),
        BasicReject(tag, flags[0]),
        BasicRecover(flags[0] or flags[1]),
        BasicQos(0, rng.choice((0, 1, 65535)), flags[0]),
    )
    return said(rng.choice(choices))


def random_mode(rng: random.Random) -> Conversation:
    choices: tuple[Method, ...] = (
        ConfirmSelect(),
        TxSelect(),
        TxCommit(),
        TxRollback(),
        ChannelFlow(True),
        ChannelOpen(),
        ChannelCloseOk(),
        ChannelClose(200, "done"),
        ConnectionClose(200, "done"),
        ConnectionCloseOk(),
    )
    return said(rng.choice(choices))


def corpus(rng: random.Random, size: int = 600) -> list[Conversation]:
    """A fixed sample of all conversations, because drawing from it is cheap."""
    makers = (random_publish, random_publish, random_fate, random_declaration, random_consuming, random_mode)
    return [makers[number % len(makers)](rng) for number in range(size)]
