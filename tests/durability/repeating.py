"""A publisher that numbers its messages and repeats all unconfirmed ones after it lost its connection.

At times it also repeats messages that were confirmed long ago.

Not here: killing the node.
"""

import random
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

from tests.support.amqp_client import Channel, Connection, ServerHungUp

DEADLINE_S = 60.0
WINDOW = 100


class Repeater:
    """Publishes to one exchange; the body of a message is its number."""

    def __init__(self, name: str, exchange: str, key: str, seed: int) -> None:
        self.next_id = 0
        # numbers of unconfirmed messages
        self.unsure: dict[int, None] = {}
        self.repeated = 0
        self._name = name
        self._exchange = exchange
        self._key = key
        self._chance = random.Random(seed)
        self._open: dict[int, int] = {}
        self._tag = 0

    def live(self, address: tuple[str, int]) -> None:
        """Publish on a connection of its own until that is lost, if it ever comes about."""
        with suppress(OSError, ServerHungUp):
            connection = Connection(address, DEADLINE_S)
            try:
                self._publish(self._begin(connection))
            finally:
                connection.cut()

    def finish(self, address: tuple[str, int]) -> None:
        """Repeat until everything is confirmed."""
        connection = Connection(address, DEADLINE_S)
        channel = self._begin(connection)
        while self._open:
            self._told(channel)
        assert not self.unsure
        connection.close()

    def _begin(self, connection: Connection) -> Channel:
        self._open, self._tag = {}, 0
        connection.shake_hands("/")
        channel = connection.channel()
        channel.confirm()
        self._repeat(channel, list(self.unsure))
        return channel

    def _publish(self, channel: Channel) -> NoReturn:
        while True:
            if self._chance.random() < 0.02 and self.next_id:
                self._repeat(channel, [self._chance.randrange(self.next_id)])
            self.unsure[self.next_id] = None
            self._send(channel, self.next_id)
            self.next_id += 1
            while len(self._open) >= WINDOW:
                self._told(channel)

    def _repeat(self, channel: Channel, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.repeated += 1
            self._send(channel, number)

    def _send(self, channel: Channel, number: int) -> None:
        headers = {"x-warren-publisher": self._name, "x-warren-publishing-id": number}
        self._tag += 1
        self._open[self._tag] = number
        channel.publish(self._exchange, self._key, b"%d" % number, {"delivery_mode": 2, "headers": headers})

    def _told(self, channel: Channel) -> None:
        confirm = channel.next(DEADLINE_S)
        tag = confirm.delivery_tag
        told = [one for one in self._open if one == tag or (confirm.multiple and one < tag)]
        for one in told:
            number = self._open.pop(one)
            if confirm.name == "basic.ack":
                self.unsure.pop(number, None)
