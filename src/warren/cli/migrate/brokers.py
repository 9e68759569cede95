"""The RabbitMQ that is moved from: its definitions and statistics over HTTP, exact counts over AMQP.

Its HTTP API shows a queue's length as it was up to five seconds ago; who declares the queue passively is told what it
is.

Invariant: nothing is changed there. What a move does to its queues, shovels do.

Not here: what is made of it (`migrating`).

The Warren that is moved to, over its HTTP API: definitions are brought, shovels set and deleted, queues counted.

Not here: what is brought (`cli.migrate.plan`).

One of the two brokers, over its HTTP API, with everything that goes wrong said in one sentence.

An idle connection may have been closed by the server, so what fails on the way is asked once more; all that is asked
here does the same when it is done twice.

Not here: the API itself (`cli.ctl.api`), what is asked (`cli.migrate.brokers`, `cli.migrate.brokers`).

Why a move cannot go on: a sentence for the operator.

Not here: options that make no sense, which are a `ConfigError`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

from warren.cli.ctl.api import UNAVAILABLE, Api, ApiRefusal, Failure, TimedOut
from warren.cli.migrate.counts import QueueCounts
from warren.cli.migrate.definitions import ExportedDefinition
from warren.cli.migrate.plan import MigrationPlan
from warren.cli.migrate.queues import (
    MARK,
    PREFIX,
    SHOVEL,
    WORKING,
    FoundQueue,
    QueueName,
    exchange_name,
    found_queue,
    is_marked,
    shovel_name,
    shovel_value,
    shovels_of_others,
    state_of,
    with_vhost,
)
from warren.client import ChannelClosed, ClientError, ConnectionClosed, LoginRefused, blocking
from warren.client.errors import UriError
from warren.client.uri import parse_uri
from warren.errors import NOT_ALLOWED, NOT_FOUND, ConfigError, WarrenError


class MoveFailed(WarrenError):
    """One of the brokers refused something, or what is there does not allow the move."""


class BrokerUnavailable(MoveFailed):
    """One of the brokers does not answer; it may, later."""


Answer = TypeVar("Answer")

TIMEOUT_S = 60.0
SERVER_ERROR = 500
"""Statuses from this one on are those of a server that starts, stops or is out of order."""


class BrokerApi:
    """`called` is what the broker is called in sentences."""

    def __init__(self, called: str, url: str, ca_file: str) -> None:
        self.called = called
        try:
            parts = urlsplit(url)
            self.host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigError(f"the address of {called} makes no sense: {error}") from error
        if parts.scheme not in ("http", "https") or not self.host:
            raise ConfigError(f"the address of {called} is that of its HTTP API: http://USER:PASSWORD@HOST:15672")
        self.user = unquote(parts.username or "guest")
        self.password = unquote(parts.password or "guest")
        shown = f"[{self.host}]" if ":" in self.host else self.host
        self.address = f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
        try:
            self._api = Api(self.address, self.user, self.password, ca_file, TIMEOUT_S)
        except Failure as failure:
            raise ConfigError(f"{called}: {_words(failure.text)}") from failure

    def get(self, *segments: str, **query: object) -> Any:
        return self._asked(lambda: self._api.get(*segments, **query))

    def find(self, *segments: str, **query: object) -> Any:
        return self._asked(lambda: self._api.find(*segments, **query))

    def put(self, *segments: str, body: object) -> None:
        self._asked(lambda: self._api.put(*segments, body=body))

    def post(self, *segments: str, body: object) -> None:
        self._asked(lambda: self._api.post(*segments, body=body))

    def remove(self, *segments: str) -> bool:
        return self._asked(lambda: self._api.remove(*segments))

    def close(self) -> None:
        self._api.close()

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except ApiRefusal as answer:
            raise self._declined(answer) from answer
        except TimedOut as failure:
            raise BrokerUnavailable(f"{self.called} at {self.address} takes too long to answer") from failure
        except Failure as failure:
            if failure.exit_code != UNAVAILABLE:
                raise MoveFailed(f"{self.called}: {_words(failure.text)}") from failure
        try:
            return ask()
        except ApiRefusal as answer:
            raise self._declined(answer) from answer
        except Failure as failure:
            why = failure.__cause__ or failure.text
            raise BrokerUnavailable(f"{self.called} at {self.address} does not answer: {why}") from failure

    def _declined(self, answer: ApiRefusal) -> MoveFailed:
        if answer.status == 401:
            return MoveFailed(
                f"{self.called} at {self.address} does not let '{self.user}' in: it takes an administrator's name and "
                "password, and guest may come from the same machine only"
            )
        kind = BrokerUnavailable if answer.status >= SERVER_ERROR else MoveFailed
        return kind(f"{self.called} at {self.address} says: {_words(answer.reason)}")


def _words(text: str) -> str:
    return " ".join(text.removeprefix("Error:").split())


CONNECTION_NAME = "warren migrate"
COLUMNS = "vhost,name,state,messages_unacknowledged,message_stats.ack"
NO_SUCH_QUEUE = "NOT_FOUND - no queue "
"""How RabbitMQ begins to say that a queue is gone. With the same code it says that its home node is down, or that it
has crashed: then everything may still be in it."""

STATISTICS_TOLD_WITHIN_S = 6.0
"""Every five seconds RabbitMQ tells what was acked; before a count that relies on it, it is given that time."""


@dataclass(frozen=True)
class ExactCount:
    """What a passive declaration tells: what waits for a consumer, and how many consumers there are."""

    ready: int
    consumers: int


class RabbitMQ:
    """`amqp` is a URI of it as Warren reaches it; empty, it is worked out from what the HTTP API says."""

    def __init__(self, url: str, amqp: str, ca_file: str) -> None:
        self.http = BrokerApi("RabbitMQ", url, ca_file)
        self._given_amqp = amqp
        if amqp:
            try:
                parse_uri(amqp)
            except UriError as error:
                raise ConfigError(f"--amqp: {error}") from error
        self._amqp = amqp
        self._channels: dict[str, tuple[blocking.Connection, blocking.Channel]] = {}

    @property
    def carrier(self) -> str:
        """The user as whom shovels consume."""
        return parse_uri(self._given_amqp).user if self._given_amqp else self.http.user

    def overview(self) -> dict[str, Any]:
        found = self.http.get("overview")
        return found if isinstance(found, dict) else {}

    def definitions(self) -> dict[str, Any]:
        found = self.http.get("definitions")
        if not isinstance(found, dict) or "vhosts" not in found:
            raise MoveFailed(
                f"RabbitMQ at {self.http.address} shows no definitions: its user is to be an administrator"
            )
        return found

    def queues(self) -> list[FoundQueue]:
        return [found_queue(row) for row in self.http.get("queues")]

    def uri(self, vhost: str) -> str:
        """Where its AMQP is, with a virtual host."""
        if not self._amqp:
            self._amqp = self._worked_out()
        return with_vhost(self._amqp, vhost)

    def count(self, queue: QueueName) -> ExactCount | None:
        """What a queue has at this moment; None if it is gone. One that RabbitMQ does not reach is away, not gone."""
        try:
            declared = self._channel(queue.vhost).declare_queue(queue.name, passive=True)
        except ChannelClosed as closed:
            self._drop(queue.vhost)
            if closed.code == NOT_FOUND and closed.text.startswith(NO_SUCH_QUEUE):
                return None
            kind = BrokerUnavailable if closed.code == NOT_FOUND else MoveFailed
            raise kind(f"RabbitMQ says of queue {queue}: {closed.text}") from closed
        except ClientError as error:
            self._drop(queue.vhost)
            raise BrokerUnavailable(f"RabbitMQ's AMQP: {error}") from error
        return ExactCount(declared.messages, declared.consumers)

    def sides(self, queues: Iterable[QueueName], believe_unacked: bool = False) -> dict[QueueName, QueueCounts]:
        """What each of these has, and what became of it so far.

        What the API says of unacked messages may be left from before. Of a queue without consumers it counts with
        `believe_unacked` only: who got messages without consuming may hold them, or whose consumer was cancelled.
        """
        told = {QueueName(row["vhost"], row["name"]): row for row in self.http.get("queues", columns=COLUMNS)}
        others: dict[str, Counter[str]] = {}
        return {queue: self._side(queue, told.get(queue, {}), others, believe_unacked) for queue in queues}

    def others(self, vhost: str) -> Counter[str]:
        """How many consumers each queue of a virtual host has that are not shovels of a move, this one or another.

        A shovel that has lost its connection has two for a while: RabbitMQ does not know yet that the old one is gone.
        """
        return self._consumers(vhost)[False]

    def is_carried(self, queue: QueueName, count: ExactCount) -> bool:
        """Whether a shovel of a move may still consume it.

        The API tells of consumers a few seconds late: none of a shovel must be known, and all there are must be known
        for those of others.
        """
        if not count.consumers:
            return False
        consumers = self._consumers(queue.vhost)
        return consumers[True][queue.name] > 0 or count.consumers > consumers[False][queue.name]

    def _consumers(self, vhost: str) -> dict[bool, Counter[str]]:
        """How many of each queue are shovels of a move, and how many are not."""
        counted: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for row in self.http.get("consumers", vhost):
            counted[is_marked(row.get("arguments"))][row["queue"]["name"]] += 1
        return counted

    def _side(
        self, queue: QueueName, row: Mapping[str, Any], others: dict[str, Counter[str]], believe_unacked: bool
    ) -> QueueCounts:
        """`others` is what is known of them so far: they are asked for once, and if there are consumers at all."""
        if state_of(row) not in WORKING:
            # of a quorum queue without a leader a passive declaration tells that it is empty
            raise BrokerUnavailable(f"RabbitMQ says of queue {queue} that it is {state_of(row)}")
        count = self.count(queue) or ExactCount(0, 0)
        if count.consumers and queue.vhost not in others:
            others[queue.vhost] = self.others(queue.vhost)
        consumers = min(count.consumers, others[queue.vhost][queue.name]) if count.consumers else 0
        acked = int((row.get("message_stats") or {}).get("ack", 0))
        unacked = int(row.get("messages_unacknowledged") or 0) if count.consumers or believe_unacked else 0
        return QueueCounts(count.ready + unacked, 0, acked, consumers)

    def enter(self, vhost: str) -> None:
        """Make sure that the shovels' user may come in; a sentence that says what to do if not."""
        user = self.carrier
        try:
            self._channel(vhost)
        except LoginRefused as error:
            raise MoveFailed(
                f"RabbitMQ does not let '{user}' in over AMQP: give a user and its password with --amqp"
            ) from error
        except ClientError as error:
            if isinstance(error, ConnectionClosed) and error.code == NOT_ALLOWED:
                raise MoveFailed(
                    f"RabbitMQ's virtual host '{vhost}' cannot be entered by '{user}': {error}; it needs permissions: "
                    f"rabbitmqctl set_permissions -p {vhost} {user} '' '' '.*'"
                ) from error
            raise MoveFailed(
                f"RabbitMQ's AMQP is not reached: {error}; nothing was changed. Both this machine and Warren have to "
                "reach it: open its port, or say with --amqp where it is"
            ) from error

    def close(self) -> None:
        for vhost in list(self._channels):
            self._drop(vhost)
        self.http.close()

    def _channel(self, vhost: str) -> blocking.Channel:
        known = self._channels.get(vhost)
        if known is None:
            connection = blocking.connect(self.uri(vhost), name=CONNECTION_NAME)
            try:
                known = connection, connection.channel()
            except BaseException:
                connection.close()
                raise
            self._channels[vhost] = known
        return known[1]

    def _drop(self, vhost: str) -> None:
        known = self._channels.pop(vhost, None)
        if known is not None:
            known[0].close()

    def _worked_out(self) -> str:
        listeners = self.overview().get("listeners", [])
        ports = [each["port"] for each in listeners if each.get("protocol") == "amqp"]
        if not ports:
            raise MoveFailed("RabbitMQ does not listen for AMQP without TLS: give its address with --amqp amqps://…")
        login = f"{quote(self.http.user, safe='')}:{quote(self.http.password, safe='')}"
        host = f"[{self.http.host}]" if ":" in self.http.host else self.http.host
        return f"amqp://{login}@{host}:{ports[0]}"


TRANSFER_EXCHANGE = {"type": "fanout", "durable": True, "arguments": {**MARK, "alternate-exchange": ""}}
"""The exchange that leads to one queue. It has no alternate exchange, and no policy gives it one: what has no queue any
more would go there, and be acked at RabbitMQ."""


@dataclass(frozen=True)
class ShovelState:
    state: str
    reason: str


class WarrenDestination:
    """One node of it; it answers for its cluster."""

    def __init__(self, url: str, ca_file: str) -> None:
        self.http = BrokerApi("Warren", url, ca_file)

    def amqp(self) -> str:
        """Where clients find it, as an address to be told."""
        listeners = self.http.get("overview").get("listeners", [])
        ports = [f"port {each['port']}" for each in listeners if each.get("protocol") in ("amqp", "amqp/ssl")]
        return " or ".join([self.http.host, *ports[:1]]).replace(" or ", ", ", 1)

    def definitions(self) -> dict[str, Any]:
        found = self.http.get("definitions")
        return found if isinstance(found, dict) else {}

    def exchanges(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get("exchanges", columns="vhost,name,arguments")
        return found

    def bring(self, plan: MigrationPlan) -> None:
        """Import what is missing, whole or not at all, and then each bridge on its own."""
        if plan.brought:
            self.http.post("definitions", body=plan.document())
        for bridge in plan.bridges:
            self._bring_bridge(bridge)

    def sides(self) -> dict[QueueName, QueueCounts]:
        """What every queue has, and what shovels of a move brought to it: no others publish to their exchanges."""
        brought = {
            (row["vhost"], row["name"]): int((row.get("message_stats") or {}).get("publish_out") or 0)
            for row in self.http.get("exchanges", columns="vhost,name,message_stats.publish_out")
        }
        sides: dict[QueueName, QueueCounts] = {}
        for row in self.http.get("queues", columns="vhost,name,messages,consumers"):
            queue = QueueName(row["vhost"], row["name"])
            came = brought.get((queue.vhost, exchange_name(queue)), 0)
            sides[queue] = QueueCounts(int(row.get("messages") or 0), came, consumers=int(row.get("consumers") or 0))
        return sides

    def carry(self, found: FoundQueue, source_uri: str) -> None:
        """Set a queue's shovel, and the exchange that leads to the queue."""
        queue = found.queue
        exchange = exchange_name(queue)
        self.http.put("exchanges", queue.vhost, exchange, body=TRANSFER_EXCHANGE)
        self.lead_to(queue)
        body = {"value": shovel_value(found, source_uri)}
        self.http.put("parameters", SHOVEL, queue.vhost, shovel_name(queue), body=body)

    def lead_to(self, queue: QueueName) -> None:
        """Bind the queue to its exchange. Who deletes a queue and makes it anew has lost the binding."""
        exchange = exchange_name(queue)
        self.http.post("bindings", queue.vhost, "e", exchange, "q", queue.name, body={"routing_key": ""})

    def stop_carrying(self, queue: QueueName) -> None:
        self.http.remove("parameters", SHOVEL, queue.vhost, shovel_name(queue))

    def tidy(self, queues: Iterable[QueueName]) -> None:
        """Delete the exchanges of queues that no shovel carries any more, and nobody's own."""
        there = {(row["vhost"], row["name"]) for row in self.exchanges() if is_marked(row.get("arguments"))}
        for queue in queues:
            if (queue.vhost, exchange_name(queue)) in there:
                self.http.remove("exchanges", queue.vhost, exchange_name(queue))

    def carried(self) -> list[QueueName]:
        """Queues whose shovels are there, from this move or from one before it."""
        rows = self.http.find("parameters", SHOVEL) or []
        if others := shovels_of_others(rows):
            raise MoveFailed(f"Warren has a shovel {others[0]} of somebody's own; names with {PREFIX} are taken")
        return [QueueName(row["vhost"], row["value"]["src-queue"]) for row in rows if row["name"].startswith(PREFIX)]

    def states(self, queues: Iterable[QueueName]) -> dict[QueueName, ShovelState]:
        """How the shovels of these queues are."""
        names = {(queue.vhost, shovel_name(queue)): queue for queue in queues}
        found: dict[QueueName, ShovelState] = {}
        for row in self.http.get("shovels"):
            queue = names.get((row.get("vhost", ""), row.get("name", "")))
            if queue is not None:
                found[queue] = ShovelState(str(row.get("state", "")), str(row.get("reason") or ""))
        return found

    def close(self) -> None:
        self.http.close()

    def _bring_bridge(self, bridge: ExportedDefinition) -> None:
        component = str(bridge.value["component"])
        self.http.put("parameters", component, bridge.vhost, bridge.name, body={"value": bridge.value["value"]})
