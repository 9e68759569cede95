"""Checks of settings: the naming convention, and what a broker lacks.

A name says to which system a virtual host, an exchange or a queue belongs, and the direction of messages.

    X_VHOST            SHOP_VHOST                   the virtual host of system X
    A_TO_B_EXCHANGE    SHOP_TO_BILLING_EXCHANGE     messages from A to B
    X_QUEUE            SHOP_ORDERS_QUEUE            messages for system X; a few more words may follow X

| rule | what it wants |
|---|---|
| case | upper-case letters, digits and single underscores, with a letter in front |
| ending | `_VHOST`, `_EXCHANGE` or `_QUEUE`, with something before it |
| direction | an exchange's name has one `TO`, with a sender before it and a receiver behind it |
| vhost | in `X_VHOST` a queue's name begins with `X`, and so does one side of an exchange's |
| binding | the name of a bound queue begins as one side of the exchange does: with its sender or its receiver |

Names made by the broker (`amq.`…) and the nameless exchange have no convention, nor have names with an unset variable.
Of one name only the first broken rule is reported, since the others follow from it.

`absences` declares each exchange and queue passively. A refusal closes the channel, so a new one is opened after each.
AMQP cannot ask for a binding, so bindings are not checked.

Not here: reading the names (`settings.files`), declaring (`Transport.declare`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from warren.client.channel import Channel
from warren.client.connection import connect
from warren.client.errors import ChannelClosed
from warren.client.settings.settings import Settings
from warren.client.transport import Layout
from warren.errors import NOT_FOUND

ENDINGS = {"vhost": "_VHOST", "exchange": "_EXCHANGE", "queue": "_QUEUE"}
_WORDS = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Finding:
    """A name that breaks a rule; `kind` is vhost, exchange, queue or binding."""

    rule: str
    kind: str
    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.sentence} ({self.rule})"


def lint(settings: Settings) -> list[Finding]:
    """Every name of the settings that breaks the convention."""
    found = _own_findings("vhost", settings.vhost)
    owner = _stem("vhost", settings.vhost) if not found and _is_known(settings.vhost) else ""
    for exchange in _exchange_names(settings):
        found += _own_findings("exchange", exchange) or list(_strange_exchange(exchange, owner))
    for queue in settings.layout.queues:
        found += _own_findings("queue", queue.name) or list(_strange_queue(queue.name, owner))
    return [*found, *_strange_bindings(settings.layout)]


def sender_and_receiver(exchange: str) -> tuple[str, str] | None:
    """Sender and receiver in the name of an exchange, if it has them."""
    sender, separator, receiver = _stem("exchange", exchange).partition("_TO_")
    if not exchange.endswith(ENDINGS["exchange"]) or not separator or "TO" in receiver.split("_"):
        return None
    return (sender, receiver) if sender and receiver else None


def _own_findings(kind: str, name: str) -> list[Finding]:
    """The rules that concern one name alone."""
    if not _is_known(name):
        return []
    if not _WORDS.fullmatch(name):
        return [Finding("case", kind, name, "use upper-case letters, digits and single underscores, a letter first")]
    if not _stem(kind, name) or not name.endswith(ENDINGS[kind]):
        return [Finding("ending", kind, name, f"end it with {ENDINGS[kind]}, behind the name of a system")]
    if kind == "exchange" and sender_and_receiver(name) is None:
        return [Finding("direction", kind, name, "say the direction, as SENDER_TO_RECEIVER_EXCHANGE")]
    return []


def _strange_exchange(name: str, owner: str) -> Iterator[Finding]:
    ends = sender_and_receiver(name)
    if owner and ends is not None and not any(_begins(side, owner) for side in ends):
        yield Finding(
            "vhost", "exchange", name, f"begin its sender or its receiver with {owner}, as {owner}_VHOST does"
        )


def _strange_queue(name: str, owner: str) -> Iterator[Finding]:
    if owner and _is_known(name) and not _begins(_stem("queue", name), owner):
        yield Finding("vhost", "queue", name, f"begin it with {owner}, as {owner}_VHOST does")


def _strange_bindings(layout: Layout) -> Iterator[Finding]:
    for binding in layout.bindings:
        ends = sender_and_receiver(binding.source)
        queue = binding.destination
        if ends is None or binding.to_exchange or _own_findings("queue", queue) or not _is_known(queue):
            continue
        if not any(_begins(_stem("queue", queue), side) for side in ends):
            yield Finding(
                "binding",
                "binding",
                f"{binding.source} to {queue}",
                f"begin the queue's name with {ends[0]} or {ends[1]}",
            )


def _exchange_names(settings: Settings) -> list[str]:
    """The declared exchanges and the one that is sent to, once each."""
    names = [exchange.name for exchange in settings.layout.exchanges]
    return list(dict.fromkeys([*names, settings.template.exchange]))


def _is_known(name: str) -> bool:
    return bool(name) and not name.startswith("amq.") and "${" not in name


def _stem(kind: str, name: str) -> str:
    return name.removesuffix(ENDINGS[kind])


def _begins(name: str, words: str) -> bool:
    """Whether a name begins with these words."""
    return f"{name}_".startswith(f"{words}_")


@dataclass(frozen=True, slots=True)
class Absence:
    """An exchange or queue that cannot be used; `reason` is the broker's, or that it is missing."""

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


async def absences(settings: Settings) -> list[Absence]:
    """What the settings name and the broker lacks, including the exchange that is sent to."""
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
