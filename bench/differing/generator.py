"""Random but meaningful conversations: a small world is set up, then used, misused and torn down.

Everything is decided by the seed. Each queue and exchange of a conversation has a usual declaration, which most
declares repeat, so that redeclaring succeeds as often as it fails. A conversation in which messages may expire soon
rests after every step for longer than their TTL, so that no outcome depends on the speed of the run. Each conversation
favours some actions and leaves others out, and may use one queue only, so that rare combinations occur in some of them.

Not here: the meaning of a step (`steps`), its outcome (`party`).
"""

import random
from typing import Any

from bench.differing.steps import Place, Publish, Step
from tests.support.amqp_values import Typed

SHORT_TTL_MS = 20
REST_MS = 70
EXPIRES_MS = 250
EXPIRY_WAIT_MS = 450
STEPS_MIN, STEPS_MAX = 10, 60
QUEUES = ("{n}q0", "{n}q1", "{n}q2")
EXCHANGES = ("{n}e0", "{n}e1", "{n}e2")
KEYS = ("", "a", "b", "a.b", "a.b.c", "b.a")
PATTERNS = (*KEYS, "*", "#", "a.*", "a.#", "#.b", "*.b.*")
REPLY_TO = "amq.rabbitmq.reply-to"
PLACES: tuple[Place, ...] = ((0, 1), (0, 2), (1, 1), (1, 2))

WEIGHTS = {
    "publish": 26, "consume": 10, "settle": 16, "get": 7, "cancel": 4, "qos": 4, "declare_queue": 5,
    "declare_exchange": 3, "bind": 6, "unbind": 2, "bind_exchange": 3, "unbind_exchange": 1, "delete_queue": 2,
    "delete_exchange": 2, "purge": 2, "recover": 3, "confirm": 3, "tx": 4, "close_channel": 2, "leave": 1, "cut": 1,
    "reply_to": 3, "flow": 0.3, "wait": 1, "declare_anonymous": 2, "passive": 2,
}  # fmt: skip


class Generator:
    """The conversation of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bodies = 0
        self.odd = False
        self.timed = self.chance(0.12)
        self.expiring = self.chance(0.04)
        self.limits_channels = self.chance(0.5)
        self.buries = self.chance(0.6)
        self.usual_place = self.random.choice(PLACES)
        self.staying = self.pick(0.0, 0.5, 0.9)
        self.usual_queue = self.random.choice(QUEUES)
        self.focus = self.pick(0.0, 0.5, 0.9)
        self.usual_queues = {name: self.queue_declaration() for name in QUEUES}
        self.dead_letters = any("x-dead-letter-exchange" in one["arguments"] for one in self.usual_queues.values())
        self.usual_exchanges = {name: self.exchange_declaration() for name in EXCHANGES}

    def conversation(self) -> list[Step]:
        steps = self.prologue()
        length = self.random.randint(STEPS_MIN, STEPS_MAX)
        actions = list(WEIGHTS)
        weights = [weight * self.pick(0, 1, 1, 3) for weight in WEIGHTS.values()]
        while len(steps) < length:
            action = self.random.choices(actions, weights)[0] if any(weights) else "publish"
            steps.append(getattr(self, action)())
        return steps

    def prologue(self) -> list[Step]:
        place = self.place()
        steps = [self._declare_exchange(place, name, self.usual_exchanges[name]) for name in EXCHANGES]
        steps += [self._declare_queue(place, name, self.usual_queues[name]) for name in QUEUES]
        steps = [step for step in steps if self.chance(0.93)]
        return steps + [self.bind() for _ in range(self.random.randint(1, 5))]

    # Chance

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def place(self) -> Place:
        return self.usual_place if self.chance(self.staying) else self.pick(*PLACES)

    def queue(self) -> str:
        if self.chance(0.09):
            return self.random.choice(("{n}absent", "", "", "{gen}", "{gen}", "{gen}", "{gen}"))
        return self.usual_queue if self.chance(self.focus) else self.pick(*QUEUES)

    def exchange(self) -> str:
        return "{n}absent" if self.chance(0.01) else self.pick(*EXCHANGES)

    def rest_ms(self) -> int:
        return REST_MS if self.timed else 0

    def method(self, method: str, place: Place | None = None, **fields: Any) -> Step:
        return Step("method", place or self.place(), method, fields, rest_ms=self.rest_ms())

    # Declarations

    def queue_declaration(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        for name, probability, values in self._queue_arguments():
            if self.chance(probability):
                arguments[name] = self.pick(*values)
        if "x-dead-letter-exchange" not in arguments and self.chance(0.9):
            arguments.pop("x-dead-letter-routing-key", None)
        return {
            "durable": self.chance(0.4), "exclusive": self.chance(0.08), "auto_delete": self.chance(0.12),
            "arguments": arguments,
        }  # fmt: skip

    def _queue_arguments(self) -> tuple[tuple[str, float, tuple[Any, ...]], ...]:
        ttl = (0, SHORT_TTL_MS, 3_600_000) if self.timed else (3_600_000, 0)
        return (
            ("x-message-ttl", 0.35 if self.timed else 0.03, ttl),
            ("x-expires", 0.6 if self.expiring else 0.02, (EXPIRES_MS,) if self.expiring else (3_600_000,)),
            ("x-max-length", 0.2, (0, 1, 1, 2, 3)),
            ("x-max-length-bytes", 0.05, (0, 2, 5)),
            ("x-overflow", 0.15, ("drop-head", "reject-publish", "reject-publish", "reject-publish-dlx")),
            ("x-dead-letter-exchange", 0.35 if self.buries else 0.0, ("", *EXCHANGES, *EXCHANGES, "{n}absent")),
            ("x-dead-letter-routing-key", 0.15, (*QUEUES, *QUEUES, "a", "a.b")),
            # RabbitMQ does not expire a message that overtook others
            ("x-max-priority", 0.0 if self.timed else 0.12, (1, 3, 10)),
            ("x-queue-mode", 0.03, ("lazy", "default")),
            ("x-single-active-consumer", 0.1, (True, True, False)),
            ("x-queue-type", 0.03, ("classic",)),
            ("x-anything", 0.03, (1, "text", None)),
        )

    def odd_queue_argument(self) -> dict[str, Any]:
        name = self.pick(
            "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-dead-letter-exchange",
            "x-dead-letter-routing-key", "x-max-priority", "x-queue-mode", "x-single-active-consumer", "x-queue-type",
        )  # fmt: skip
        return {name: self.pick(-1, 0, 1, 256, 2**40, "1", "x", "", True, 1.5, None, {}, [], Typed("l", 1))}

    def exchange_declaration(self) -> dict[str, Any]:
        arguments = {}
        if self.chance(0.2):
            arguments["alternate-exchange"] = self.pick(
                *EXCHANGES, "{n}absent", "amq.fanout", 5 if self.chance(0.2) else ""
            )
        return {
            "type": self.pick("direct", "fanout", "topic", "headers"), "durable": self.chance(0.3),
            "auto_delete": self.chance(0.15), "internal": self.chance(0.07), "arguments": arguments,
        }  # fmt: skip

    def _declare_queue(self, place: Place, name: str, declaration: dict[str, Any]) -> Step:
        return self.method("queue.declare", place, queue=name, **declaration)

    def _declare_exchange(self, place: Place, name: str, declaration: dict[str, Any]) -> Step:
        return self.method("exchange.declare", place, exchange=name, **declaration)

    def declare_queue(self) -> Step:
        name = self.pick(*QUEUES)
        declaration = dict(self.usual_queues[name])
        change = self.random.random()
        if change < 0.15:
            declaration |= self.queue_declaration()
        elif change < 0.3:
            declaration["arguments"] = declaration["arguments"] | self.odd_queue_argument()
        elif change < 0.4:
            flag = self.pick("durable", "exclusive", "auto_delete")
            declaration[flag] = not declaration[flag]
        if self.chance(0.03):
            name = self.pick("amq.mine", "amq.gen-mine", "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x")
        nowait = self.chance(0.05)
        return self.method("queue.declare", queue=name, nowait=nowait, **declaration)

    def declare_anonymous(self) -> Step:
        if self.chance(0.1):
            return self.method("queue.declare", queue="", passive=True)
        return self.method("queue.declare", queue="", **self.queue_declaration() | {"auto_delete": self.chance(0.3)})

    def declare_exchange(self) -> Step:
        name = self.pick(*EXCHANGES)
        declaration = dict(self.usual_exchanges[name])
        if self.chance(0.3):
            declaration |= self.exchange_declaration()
        if self.chance(0.05):
            declaration["type"] = self.pick("", "nonsense", "DIRECT")
        if self.chance(0.05):
            name = self.pick("", "amq.direct", "amq.mine", "amq.fanout")
        return self.method("exchange.declare", exchange=name, nowait=self.chance(0.05), **declaration)

    def passive(self) -> Step:
        if self.chance(0.5):
            return self.method("queue.declare", queue=self.queue(), passive=True)
        kind = self.pick("direct", "fanout", "topic", "headers", "", "nonsense")
        return self.method("exchange.declare", exchange=self.pick(*EXCHANGES, "amq.topic", ""), type=kind, passive=True)

    # Bindings

    def binding_arguments(self) -> dict[str, Any]:
        if self.chance(0.45):
            return {}
        arguments = self.message_headers()
        if self.chance(0.7):
            arguments["x-match"] = self.pick("all", "any", "all", "any", "all-with-x", "any-with-x", "none", 3)
        return arguments

    def bind(self) -> Step:
        key = self.pick(*PATTERNS)
        source = self.exchange() if self.chance(0.95) else self.pick("", "amq.topic", "amq.headers")
        return self.method(
            "queue.bind", queue=self.queue(), exchange=source, routing_key=key, nowait=self.chance(0.05),
            arguments=self.binding_arguments(),
        )  # fmt: skip

    def unbind(self) -> Step:
        return self.method(
            "queue.unbind", queue=self.queue(), exchange=self.exchange(), routing_key=self.pick(*PATTERNS),
            arguments=self.binding_arguments() if self.chance(0.3) else {},
        )  # fmt: skip

    def bind_exchange(self) -> Step:
        return self._exchange_binding("exchange.bind")

    def unbind_exchange(self) -> Step:
        return self._exchange_binding("exchange.unbind")

    def _exchange_binding(self, method: str) -> Step:
        source, destination = self.exchange(), self.exchange()
        if self.chance(0.05):
            source = self.pick("", "amq.fanout", "amq.direct")
        return self.method(
            method, source=source, destination=destination, routing_key=self.pick(*PATTERNS),
            arguments=self.binding_arguments() if self.chance(0.3) else {},
        )  # fmt: skip

    def delete_queue(self) -> Step:
        return self.method(
            "queue.delete", queue=self.queue(), if_unused=self.chance(0.4), if_empty=self.chance(0.4),
            nowait=self.chance(0.05),
        )  # fmt: skip

    def delete_exchange(self) -> Step:
        name = self.exchange() if self.chance(0.9) else self.pick("", "amq.direct")
        return self.method("exchange.delete", exchange=name, if_unused=self.chance(0.5))

    def purge(self) -> Step:
        return self.method("queue.purge", queue=self.queue(), nowait=self.chance(0.05))

    # Messages

    def message_headers(self) -> dict[str, Any]:
        names = ("h1", "h2", "x-h3")
        values = (1, 2, "x", "y", True, None, 1.0, Typed("l", 1), Typed("b", 1), b"x")
        return {name: self.pick(*values) for name in names if self.chance(0.5)}

    def properties(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        if self.chance(0.3):
            properties["headers"] = self.message_headers()
        if self.chance(0.12):
            copies = [self.pick(*QUEUES, "a", "a.b", "b") for _ in range(self.random.randint(0, 2))]
            odd: Any = self.pick("a", 5, [5, "a"], None, {}) if self.odd and self.chance(0.15) else copies
            properties.setdefault("headers", {})[self.pick("CC", "BCC")] = odd
        if self.chance(0.35):
            properties["delivery_mode"] = self.pick(0, 3) if self.odd and self.chance(0.1) else self.pick(1, 2)
        if self.odd and self.chance(0.3):
            properties["priority"] = self.pick(0, 1, 2, 5, 255)
        if self.chance(0.3 if self.timed else 0.04):
            soon = (str(SHORT_TTL_MS), "0", "3600000") if self.timed else ("3600000",)
            odd_times = ("", "-1", "x", "1.5", "99999999999999", " 5", "4294967296")
            properties["expiration"] = self.pick(*odd_times) if self.odd and self.chance(0.1) else self.pick(*soon)
        if self.chance(0.04):
            properties["user_id"] = self.pick("guest", "mallory", "") if self.odd else "guest"
        if self.chance(0.05):
            properties["reply_to"] = REPLY_TO if self.odd and self.chance(0.3) else "somewhere"
        if self.chance(0.1):
            properties |= {"content_type": "text/plain", "correlation_id": "c", "timestamp": 7, "type": "t"}
        if self.chance(0.02):
            properties.setdefault("headers", {})["x-death"] = self.pick([], "x", [{"queue": "elsewhere"}], 5)
        return properties

    def one_publish(self) -> Publish:
        self.bodies += 1
        body = f"m{self.bodies}"
        if self.chance(0.45):
            exchange, key = "", self.usual_queue if self.chance(self.focus) else self.pick(*QUEUES)
            key = "{gen}" if self.chance(0.08) else "{n}absent" if self.chance(0.04) else key
        else:
            exchange, key = self.exchange(), self.pick(*KEYS)
        return Publish(exchange, key, body, self.properties(), self.chance(0.25))

    def publish(self) -> Step:
        """Several publishes in one write are plain: errors, priorities and dead letters would depend on timing."""
        count = 1 if self.dead_letters else self.pick(1, 1, 1, 2, 3, 5)
        self.odd = count == 1
        return Step(
            "publish", self.place(), publishes=tuple(self.one_publish() for _ in range(count)), rest_ms=self.rest_ms()
        )

    def reply_to(self) -> Step:
        """Consume from the reply-to queue, request, or reply, in any order."""
        what = self.random.random()
        if what < 0.4:
            return self.method(
                "basic.consume", queue=REPLY_TO, consumer_tag=self.pick("r", "r", ""), no_ack=self.chance(0.95)
            )
        self.bodies += 1
        self.odd = True
        body = f"m{self.bodies}"
        if what < 0.75:
            asked = Publish("", self.pick(*QUEUES), body, {"reply_to": REPLY_TO}, self.chance(0.2))
        else:
            asked = Publish("", "{reply}", body, self.properties(), self.chance(0.5))
        return Step("publish", self.place(), publishes=(asked,), rest_ms=self.rest_ms())

    # Consuming

    def consume(self) -> Step:
        arguments: dict[str, Any] = {}
        if self.chance(0.25):
            arguments["x-priority"] = self.pick(-1, 0, 1, 5, "5" if self.chance(0.2) else 2, Typed("b", 3))
        if self.chance(0.03):
            arguments["x-cancel-on-ha-failover"] = self.pick(True, False, "x")
        return self.method(
            "basic.consume", queue=self.queue(), consumer_tag=self.pick("c0", "c1", "c2", "c3", ""),
            no_ack=self.chance(0.35), exclusive=self.chance(0.08), no_local=self.chance(0.05),
            nowait=self.chance(0.05), arguments=arguments,
        )  # fmt: skip

    def cancel(self) -> Step:
        tag = self.pick("c0", "c1", "c2", "c3", "r")
        return self.method("basic.cancel", consumer_tag=tag, nowait=self.chance(0.1))

    def qos(self) -> Step:
        size = 100 if self.chance(0.02) else 0
        count = self.pick(0, 1, 1, 2, 3, 10)
        fields = {"prefetch_size": size, "prefetch_count": count, "global": self.limits_channels and self.chance(0.5)}
        return Step("method", self.place(), "basic.qos", fields, rest_ms=self.rest_ms())

    def get(self) -> Step:
        """RabbitMQ counts unacked gets against a channel limit that is set later, and never stops counting them."""
        return self.method("basic.get", queue=self.queue(), no_ack=self.limits_channels or self.chance(0.4))

    def settle(self) -> Step:
        method = self.pick("basic.ack", "basic.ack", "basic.nack", "basic.nack", "basic.reject")
        fields: dict[str, Any] = {}
        if method != "basic.reject":
            fields["multiple"] = self.chance(0.3)
        if method != "basic.ack":
            fields["requeue"] = self.chance(0.5)
        pick = self.pick("open", "open", "open", "open", "open", "open", "open", "settled", "zero", "beyond")
        pick = "open" if self.chance(0.6) else pick
        return Step(
            "settle", self.place(), method, fields, pick=pick, pick_number=self.random.randint(0, 5),
            rest_ms=self.rest_ms(),
        )  # fmt: skip

    def recover(self) -> Step:
        requeue = self.chance(0.93)
        return self.method(self.pick("basic.recover", "basic.recover", "basic.recover-async"), requeue=requeue)

    # Channels and connections

    def confirm(self) -> Step:
        return self.method("confirm.select", nowait=self.chance(0.1))

    def tx(self) -> Step:
        return self.method(self.pick("tx.select", "tx.select", "tx.commit", "tx.commit", "tx.rollback"))

    def flow(self) -> Step:
        return self.method("channel.flow", active=self.chance(0.5))

    def close_channel(self) -> Step:
        return self.method("channel.close", reply_code=200, reply_text="done")

    def leave(self) -> Step:
        return Step("leave", self.place(), rest_ms=self.rest_ms())

    def cut(self) -> Step:
        return Step("cut", self.place(), rest_ms=self.rest_ms())

    def wait(self) -> Step:
        return Step("wait", self.place(), rest_ms=EXPIRY_WAIT_MS if self.expiring else REST_MS)
