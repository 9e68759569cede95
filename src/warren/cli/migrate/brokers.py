"""The two brokers of a move over their HTTP APIs: RabbitMQ as the source, Warren as the destination.

RabbitMQ's HTTP API shows a queue's length with a delay of up to five seconds. A passive declaration over AMQP gives the
exact length. Invariant: the move changes nothing at RabbitMQ except through its shovels.

Every error is one sentence. A server may have closed an idle connection, so a failed request is sent once more. All
requests here are idempotent.

Not here: the API client (`cli.ctl.api`), what is imported (`cli.migrate.plan`), invalid options, which are a
`ConfigError`.
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
    """A broker refused a request, or its state does not allow the move."""


class BrokerUnavailable(MoveFailed):
    """A broker does not respond; it may, later."""


Answer = TypeVar("Answer")

TIMEOUT_S = 60.0
SERVER_ERROR = 500
"""Statuses from this one on mean that a server is starting, stopping or failing."""


class BrokerApi:
    """`called` is the broker's name in sentences."""

    def __init__(self, called: str, url: str, ca_file: str) -> None:
        self.called = called
        try:
            parts = urlsplit(url)
            self.host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ConfigError(f"the address of {called} is invalid: {error}") from error
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
            raise BrokerUnavailable(f"{self.called} at {self.address} does not answer in time") from failure
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
                f"{self.called} at {self.address} refuses '{self.user}': it needs an administrator's name and "
                "password, and guest may come from the same machine only"
            )
        kind = BrokerUnavailable if answer.status >= SERVER_ERROR else MoveFailed
        return kind(f"{self.called} at {self.address} says: {_words(answer.reason)}")


def _words(text: str) -> str:
    return " ".join(text.removeprefix("Error:").split())


CONNECTION_NAME = "warren migrate"
COLUMNS = "vhost,name,state,messages_unacknowledged,message_stats.ack"
NO_SUCH_QUEUE = "NOT_FOUND - no queue "
"""The start of RabbitMQ's text for a missing queue. The same code is used for a queue whose node is down or that has
crashed, which may still contain messages.
"""

STATISTICS_DELAY_S = 6.0
"""RabbitMQ publishes its ack counters every five seconds; a count that uses them waits that long."""


@dataclass(frozen=True)
class ExactCount:
    """The reply to a passive declaration: ready messages and consumers."""

    ready: int
    consumers: int


class RabbitMQ:
    """`amqp` is its URI as Warren reaches it; if empty, it is derived from the HTTP API."""

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
            raise MoveFailed(f"RabbitMQ at {self.http.address} shows no definitions: its user must be an administrator")
        return found

    def queues(self) -> list[FoundQueue]:
        return [found_queue(row) for row in self.http.get("queues")]

    def uri(self, vhost: str) -> str:
        """The AMQP URI with this virtual host."""
        if not self._amqp:
            self._amqp = self._worked_out()
        return with_vhost(self._amqp, vhost)

    def count(self, queue: QueueName) -> ExactCount | None:
        """The exact count of a queue; None if it does not exist. A queue that RabbitMQ cannot reach is unavailable
        instead.
        """
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
        """The current counts of these queues.

        The API's number of unacked messages may be stale. For a queue without consumers it counts only with
        `believe_unacked`: messages may be held by `basic.get` or by a cancelled consumer.
        """
        rows = {QueueName(row["vhost"], row["name"]): row for row in self.http.get("queues", columns=COLUMNS)}
        others: dict[str, Counter[str]] = {}
        return {queue: self._side(queue, rows.get(queue, {}), others, believe_unacked) for queue in queues}

    def others(self, vhost: str) -> Counter[str]:
        """The consumers of each queue that are not shovels of a move.

        A shovel that lost its connection counts twice until RabbitMQ notices.
        """
        return self._consumers(vhost)[False]

    def is_transferring(self, queue: QueueName, count: ExactCount) -> bool:
        """Whether a shovel of a move may still consume the queue.

        The API lists consumers with a delay: no consumer may be a shovel, and all counted consumers must be listed as
        others'.
        """
        if not count.consumers:
            return False
        consumers = self._consumers(queue.vhost)
        return consumers[True][queue.name] > 0 or count.consumers > consumers[False][queue.name]

    def _consumers(self, vhost: str) -> dict[bool, Counter[str]]:
        """The consumers of each queue: shovels of a move, and others."""
        counted: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for row in self.http.get("consumers", vhost):
            counted[is_marked(row.get("arguments"))][row["queue"]["name"]] += 1
        return counted

    def _side(
        self, queue: QueueName, row: Mapping[str, Any], others: dict[str, Counter[str]], believe_unacked: bool
    ) -> QueueCounts:
        """`others` caches the other consumers, which are requested once, if there are consumers at all."""
        if state_of(row) not in WORKING:
            # a passive declaration reports a quorum queue without a leader as empty
            raise BrokerUnavailable(f"RabbitMQ says of queue {queue} that it is {state_of(row)}")
        count = self.count(queue) or ExactCount(0, 0)
        if count.consumers and queue.vhost not in others:
            others[queue.vhost] = self.others(queue.vhost)
        consumers = min(count.consumers, others[queue.vhost][queue.name]) if count.consumers else 0
        acked = int((row.get("message_stats") or {}).get("ack", 0))
        unacked = int(row.get("messages_unacknowledged") or 0) if count.consumers or believe_unacked else 0
        return QueueCounts(count.ready + unacked, 0, acked, consumers)

    def enter(self, vhost: str) -> None:
        """Check that the shovels' user may log in; the error says what to do if not."""
        user = self.carrier
        try:
            self._channel(vhost)
        except LoginRefused as error:
            raise MoveFailed(
                f"RabbitMQ refuses '{user}' over AMQP: give a user and its password with --amqp"
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
"""The exchange that leads to one queue. It has no alternate exchange and no policy gives it one: unroutable messages
would go there and be acked at RabbitMQ.
"""


@dataclass(frozen=True)
class ShovelState:
    state: str
    reason: str


class WarrenDestination:
    """One node of the destination."""

    def __init__(self, url: str, ca_file: str) -> None:
        self.http = BrokerApi("Warren", url, ca_file)

    def amqp(self) -> str:
        """The address for clients."""
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
        """Import the missing definitions in one request, then each bridge."""
        if plan.brought:
            self.http.post("definitions", body=plan.document())
        for bridge in plan.bridges:
            self._bring_bridge(bridge)

    def sides(self) -> dict[QueueName, QueueCounts]:
        """The lengths of all queues, and the messages that shovels of a move brought: only they use those exchanges."""
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
        """Set a queue's shovel and the exchange that leads to the queue."""
        queue = found.queue
        exchange = exchange_name(queue)
        self.http.put("exchanges", queue.vhost, exchange, body=TRANSFER_EXCHANGE)
        self.lead_to(queue)
        body = {"value": shovel_value(found, source_uri)}
        self.http.put("parameters", SHOVEL, queue.vhost, shovel_name(queue), body=body)

    def lead_to(self, queue: QueueName) -> None:
        """Bind the queue to its exchange. A queue that was deleted and declared again has lost the binding."""
        exchange = exchange_name(queue)
        self.http.post("bindings", queue.vhost, "e", exchange, "q", queue.name, body={"routing_key": ""})

    def end_transfer(self, queue: QueueName) -> None:
        self.http.remove("parameters", SHOVEL, queue.vhost, shovel_name(queue))

    def tidy(self, queues: Iterable[QueueName]) -> None:
        """Delete the exchanges of queues without a shovel, but no foreign exchanges."""
        there = {(row["vhost"], row["name"]) for row in self.exchanges() if is_marked(row.get("arguments"))}
        for queue in queues:
            if (queue.vhost, exchange_name(queue)) in there:
                self.http.remove("exchanges", queue.vhost, exchange_name(queue))

    def carried(self) -> list[QueueName]:
        """Queues that have a shovel, from this move or an earlier one."""
        rows = self.http.find("parameters", SHOVEL) or []
        if others := shovels_of_others(rows):
            raise MoveFailed(
                f"Warren has a shovel {others[0]} of its own; names with {PREFIX} are reserved for the move"
            )
        return [QueueName(row["vhost"], row["value"]["src-queue"]) for row in rows if row["name"].startswith(PREFIX)]

    def states(self, queues: Iterable[QueueName]) -> dict[QueueName, ShovelState]:
        """The states of these queues' shovels."""
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
