"""A method whose effect must be agreed upon before it is answered.

While a wish is not decided, its frame waits at the head of the connection's input, and all that follows waits behind
it. Once it is decided the frame is handled again from its start. It looks at what there is then: a queue that was to be
made is there, and is answered for like any that is; if something else changed first, the method may come to another
end, or wish again. What must not differ the second time is remembered here.

A wish that could not be agreed upon ends its channel, because nobody knows whether it will yet come about.

Not here: agreeing (`broker.agreement`), what is wished for (`session.declaring`).
"""

from typing import TYPE_CHECKING, final

from warren.model.agreeing import AgreementWaiter, could_not_agree
from warren.session.connection import RUNNING

if TYPE_CHECKING:
    from warren.session.channel import Channel


@final
class Wish(AgreementWaiter):
    """What one method of a channel wants."""

    def __init__(self, channel: "Channel") -> None:
        # it came about as planned
        self.granted: bool = False
        # the name that was given to a queue without one
        self.fresh_name: str = ""
        # how many messages were in the queue to be deleted
        self.message_count: int = 0
        self.refusal: str = ""
        self._channel: Channel = channel

    def wait(self) -> None:
        """Handle the frame at hand again once this is decided, and nothing of this connection before."""
        connection = self._channel.connection
        self._channel.wish = self
        connection.reader.step_back()
        connection.await_answer()

    def agreed(self) -> None:
        self.granted = True
        self._go_on()
        connection = self._channel.connection
        if connection.state != RUNNING:
            # its exclusive queues went when it ended, and this may have been to be another
            self._channel.vhost.delete_queues_of(connection.connection_id)

    def outdated(self) -> None:
        self._go_on()

    def failed(self, reason: str) -> None:
        self.refusal = reason
        self._go_on()

    def _go_on(self) -> None:
        connection = self._channel.connection
        # one that ends reads on without waiting for anything
        if connection.state == RUNNING:
            connection.turn.inputs.append(connection)


def wish_of(channel: "Channel") -> Wish:
    """That of the method at hand: the one it waited for, if it is handled again; a fault if that failed."""
    wish = channel.wish
    if wish is None:
        return Wish(channel)
    channel.wish = None
    if wish.refusal:
        raise could_not_agree(wish.refusal)
    return wish
