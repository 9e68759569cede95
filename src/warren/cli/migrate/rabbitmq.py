"""The RabbitMQ that is moved from: its definitions and statistics over HTTP, exact counts over AMQP.

Its HTTP API shows a queue's length as it was up to five seconds ago; who declares the queue passively is told what it
is.

Invariant: nothing is changed there. What a move does to its queues, shovels do.

Not here: what is made of it (`migrating`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from warren.cli.migrate.http_side import HttpSide
from warren.cli.migrate.trouble import Away, MoveFailed
from warren.client import ChannelClosed, ClientError, ConnectionClosed, LoginRefused, blocking
from warren.client.errors import UriError
from warren.client.uri import parse_uri
from warren.errors import NOT_ALLOWED, NOT_FOUND, ConfigError
from warren.migrating.counting import Side
from warren.migrating.queues import WORKING, FoundQueue, QueueName, found_queue, state_of
from warren.migrating.shovels import is_marked, with_vhost

CONNECTION_NAME = "warren migrate"
COLUMNS = "vhost,name,state,messages_unacknowledged,message_stats.ack"
NO_SUCH_QUEUE = "NOT_FOUND - no queue "
"""How RabbitMQ begins to say that a queue is gone. With the same code it says that its home node is down, or that it
has crashed: then everything may still be in it."""

STATISTICS_TOLD_WITHIN_S = 6.0
"""Every five seconds RabbitMQ tells what was acked; before a count that relies on it, it is given that time."""


@dataclass(frozen=True)
class Count:
    """What a passive declaration tells: what waits for a consumer, and how many consumers there are."""

    ready: int
    consumers: int


class RabbitMQ:
    """`amqp` is a URI of it as Warren reaches it; empty, it is worked out from what the HTTP API says."""

    def __init__(self, url: str, amqp: str, ca_file: str) -> None:
        self.http = HttpSide("RabbitMQ", url, ca_file)
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

    def count(self, queue: QueueName) -> Count | None:
        """What a queue has at this moment; None if it is gone. One that RabbitMQ does not reach is away, not gone."""
        try:
            declared = self._channel(queue.vhost).declare_queue(queue.name, passive=True)
        except ChannelClosed as closed:
            self._drop(queue.vhost)
            if closed.code == NOT_FOUND and closed.text.startswith(NO_SUCH_QUEUE):
                return None
            kind = Away if closed.code == NOT_FOUND else MoveFailed
            raise kind(f"RabbitMQ says of queue {queue}: {closed.text}") from closed
        except ClientError as error:
            self._drop(queue.vhost)
            raise Away(f"RabbitMQ's AMQP: {error}") from error
        return Count(declared.messages, declared.consumers)

    def sides(self, queues: Iterable[QueueName], believe_unacked: bool = False) -> dict[QueueName, Side]:
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

    def is_carried(self, queue: QueueName, count: Count) -> bool:
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
    ) -> Side:
        """`others` is what is known of them so far: they are asked for once, and if there are consumers at all."""
        if state_of(row) not in WORKING:
            # of a quorum queue without a leader a passive declaration tells that it is empty
            raise Away(f"RabbitMQ says of queue {queue} that it is {state_of(row)}")
        count = self.count(queue) or Count(0, 0)
        if count.consumers and queue.vhost not in others:
            others[queue.vhost] = self.others(queue.vhost)
        consumers = min(count.consumers, others[queue.vhost][queue.name]) if count.consumers else 0
        acked = int((row.get("message_stats") or {}).get("ack", 0))
        unacked = int(row.get("messages_unacknowledged") or 0) if count.consumers or believe_unacked else 0
        return Side(count.ready + unacked, 0, acked, consumers)

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
