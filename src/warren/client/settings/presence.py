"""What of a layout a broker lacks, found out without making anything.

Each exchange and queue is declared passively. A refusal closes the channel, so after each a channel is opened anew.
AMQP has no way to ask for a binding; they are not looked at.

Not here: having them made (`Transport.declare`).
"""

from dataclasses import dataclass

from warren.client.channel import Channel
from warren.client.connecting import connect
from warren.client.errors import ChannelClosed
from warren.client.settings.content import Settings
from warren.errors import NOT_FOUND


@dataclass(frozen=True, slots=True)
class Absence:
    """An exchange or queue that cannot be used; `reason` is the broker's, or that it is missing."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


async def absences(settings: Settings) -> list[Absence]:
    """What the settings name and the broker does not have; the exchange that is sent to included."""
    wanted = [("exchange", name) for name in _exchanges(settings)]
    wanted += [("queue", queue.name) for queue in settings.layout.queues]
    found: list[Absence] = []
    async with await connect(settings.url, name=settings.name) as connection:
        channel = await connection.channel()
        for kind, name in wanted:
            try:
                await _ask(channel, kind, name)
            except ChannelClosed as closed:
                found.append(Absence(kind, name, "missing" if closed.code == NOT_FOUND else closed.text))
                channel = await connection.channel()
    return found


async def _ask(channel: Channel, kind: str, name: str) -> None:
    if kind == "exchange":
        await channel.declare_exchange(name, passive=True)
    else:
        await channel.declare_queue(name, passive=True)


def _exchanges(settings: Settings) -> list[str]:
    names = [exchange.name for exchange in settings.layout.exchanges]
    return list(dict.fromkeys([*names, *filter(None, [settings.template.exchange])]))
