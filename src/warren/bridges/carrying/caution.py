"""Caution: what a bridge knows, from one life to the next, of a message that its destination will not have.

Some messages a broker refuses by closing the channel: one with a user-id that is not the bridge's, one that is too
large. It does not say which one, and everything that was on its way with it, before it and behind it, is carried again.
If the next life did the same, all that is in front of it would be doubled for ever.

So what was undecided when a channel was closed is *suspect*. As many messages are published one by one, each when the
one before it is decided; whoever is the last one then is found. It stays at the source, where it is the first: nothing
overtakes it, and what is behind it waits until it is gone, or the destination takes it.

One that cannot even be written down for the destination, because its properties do not fit a frame there or its headers
nest too deep for what is added to them, is known at once, and is treated likewise.

Not here: how long is waited before it is tried again (`bridges.keeper`).
"""

from collections.abc import Sequence
from typing import Final

from warren.bridges.carrying.uncertain import message_ids
from warren.client.errors import RETRIABLE_CODES, ChannelClosed, ClientError, ConnectionClosed
from warren.client.machine.deliveries import Delivery

_STAYS: Final = (
    "it stays at the source, in front of all others, until it is taken out there or the destination takes it"
)


class MessageRefused(ChannelClosed):
    """One message, which is known, is not taken by the destination, or cannot be sent there at all."""


class Caution:
    """Of one bridge."""

    def __init__(self) -> None:
        # how many are to be published one by one
        self.suspects = 0

    def decided(self, count: int) -> None:
        """So many were taken, or refused in a word."""
        self.suspects = max(self.suspects - count, 0)

    def closed(self, error: ClientError, undecided: Sequence[Delivery]) -> ClientError:
        """What ended it, said of the message if that is known; `undecided` were on their way."""
        if not isinstance(error, ChannelClosed | ConnectionClosed) or not undecided:
            return error
        if not error.code or error.code in RETRIABLE_CODES:
            # the line was lost, or the broker stops
            return error
        self.suspects = max(self.suspects, len(undecided))
        if len(undecided) > 1:
            return error
        method = error.method if isinstance(error, ChannelClosed) else ""
        return MessageRefused(_sentence(undecided[0], error), error.code, error.text, method)


def cannot_be_sent(delivery: Delivery, trouble: Exception) -> str:
    """A sentence about one that was not written."""
    return f"{_known_as(delivery)}, cannot be sent to the destination: {trouble}"


def not_sendable(delivery: Delivery, trouble: Exception) -> MessageRefused:
    """The same, for one that the source still has."""
    return MessageRefused(f"{cannot_be_sent(delivery, trouble)}; {_STAYS}")


def _sentence(delivery: Delivery, error: ClientError) -> str:
    return f"the destination refuses {_known_as(delivery)}: {error}; {_STAYS}"


def _known_as(delivery: Delivery) -> str:
    ids = message_ids([delivery.header_payload])
    which = f"message {ids[0]!r}" if ids else "the first message, which has no message id"
    return f"{which}, published to exchange {delivery.exchange!r} with routing key {delivery.routing_key!r}"
