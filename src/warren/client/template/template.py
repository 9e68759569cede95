"""Templates: making messages from payloads, sending them, and opening a template from settings.

    async with open_template(read_settings("shop.toml")) as template:
        await template.send({"order": 7})

A template has no connection of its own; many may share a transport, which its opener closes. `open_template` declares
the layout before anything is sent, and again after each lost connection. When its block is left, submitted messages are
decided first; after an error the transport still finishes its publishes.

**Messages.** Content type and encoding are the converter's. A content type in the call's properties replaces it,
because a format may have a more specific name (`application/vnd.order+json`). Properties of a caller are copied, never
changed. A message that AMQP cannot carry is refused here, before the messages before it in a batch are sent. Message
ids are UUIDs of version 7, so later ids sort later, to the millisecond. After a clock is set back ids sort earlier, but
none repeats: 74 of their bits are random.

**Transactions.** Messages are collected, and sent as one transaction when the block is left, or not at all after an
error.

    async with template.transaction() as together:
        together.send(order)
        together.send(bill, routing_key="billing")

**Window.** At most `window` submitted messages are undecided.

    submit ──▶ collected ──▶ one Transport.publish for each step of the loop ──▶ futures

Messages submitted in one step of the loop are published together, in order, and in parts, so that the window is filled
again while the rest is in flight. A part with failures is logged in one line, because a program may not check all
futures. A place in the window is taken before a message is collected, and released when it is decided. Each future is
decided exactly once.

**Alternate exchange.** An unroutable message goes to the alternate exchange and its queue.

    EXCHANGE ──▶ its bindings
        └──────▶ EXCHANGE's alternate (fanout) ──▶ a queue that catches all

The names follow the convention if the exchange's does: A_TO_B_EXCHANGE has A_TO_B_UNROUTED_EXCHANGE and
A_TO_B_UNROUTED_QUEUE; any other, say orders, has orders.unrouted twice. A message that went there was routed: it is
confirmed, and not returned if mandatory.

Not here: recovery of the transport (`client.recovering`), transactions at the broker (`Transport.publish_together`).
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack

from warren.client import recovering
from warren.client.converters import CONVERTERS, Converter, body_of
from warren.client.errors import BatchFailed, CannotConvert, ClientError
from warren.client.machine.publishes import Message
from warren.client.settings import Settings, TemplateSettings
from warren.client.settings.checks import ENDINGS
from warren.client.settings.settings import SEND_TIMEOUT_S, WINDOW
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout, Transport
from warren.wire.field_tables import Table
from warren.wire.properties import Properties, encode_header_payload

_VERSION_7 = 7 << 76
_VARIANT = 0b10 << 62


def new_message_id() -> str:
    """A unique id."""
    chance = int.from_bytes(os.urandom(10), "big")
    above = (chance >> 62) & 0xFFF
    below = chance & 0x3FFF_FFFF_FFFF_FFFF
    milliseconds = (time.time_ns() // 1_000_000) & 0xFFFF_FFFF_FFFF
    return str(uuid.UUID(int=milliseconds << 80 | _VERSION_7 | above << 64 | _VARIANT | below))


KEY_HEADER: Final = "x-key"
"""The header with the ordering key."""

NAME_BYTES_MAX: Final = 255
PERSISTENT: Final = 2
TRANSIENT: Final = 1


class Overrides(TypedDict, total=False):
    """What a call may override; `key` is the ordering key, a header like those in `headers`."""

    exchange: str
    routing_key: str
    converter: Converter
    mandatory: bool
    persistent: bool
    message_id: str
    key: str
    headers: Table
    properties: Properties


@dataclass(frozen=True, slots=True)
class TemplateDefaults:
    """The defaults of all calls."""

    exchange: str
    routing_key: str
    converter: Converter
    mandatory: bool
    persistent: bool

    def __post_init__(self) -> None:
        _check_name("exchange", self.exchange)
        _check_name("routing key", self.routing_key)


def prepare_message(payload: object, standing: TemplateDefaults, overrides: Overrides) -> Outgoing:
    """The message of a payload, and its destination."""
    if not overrides:
        return _plain(payload, standing)
    if unknown := sorted(set(overrides) - Overrides.__optional_keys__):
        raise TypeError(f"a template's call takes {', '.join(sorted(Overrides.__optional_keys__))}, not {unknown[0]}")
    there = TemplateDefaults(
        overrides.get("exchange", standing.exchange),
        overrides.get("routing_key", standing.routing_key),
        overrides.get("converter", standing.converter),
        overrides.get("mandatory", standing.mandatory),
        overrides.get("persistent", standing.persistent),
    )
    outgoing = _plain(payload, there)
    properties = _merged(outgoing.message.properties or Properties(), overrides)
    _check_encodes(properties)
    return Outgoing(Message(outgoing.message.body, properties), there.exchange, there.routing_key, there.mandatory)


def message_id_of(outgoing: Outgoing) -> str:
    """The id of a message; empty if it was made elsewhere and has none."""
    properties = outgoing.message.properties
    return (properties.message_id or "") if properties is not None else ""


def _plain(payload: object, standing: TemplateDefaults) -> Outgoing:
    properties = Properties(
        content_type=standing.converter.content_type,
        content_encoding=standing.converter.content_encoding,
        delivery_mode=PERSISTENT if standing.persistent else TRANSIENT,
        message_id=new_message_id(),
    )
    message = Message(body_of(payload, standing.converter), properties)
    return Outgoing(message, standing.exchange, standing.routing_key, standing.mandatory)


def _merged(made: Properties, overrides: Overrides) -> Properties:
    """The caller's properties, completed with the template's."""
    given = overrides.get("properties")
    found = dict(given.fields()) if given is not None else {}
    headers: Table = {**((given.headers if given is not None else None) or {}), **overrides.get("headers", {})}
    if "key" in overrides:
        headers[KEY_HEADER] = overrides["key"]
    merged = Properties(**{name: value for name, value in found.items() if value is not None})  # type: ignore[arg-type]
    merged.headers = headers or None
    merged.content_type = merged.content_type or made.content_type
    # the converter wrote the body, so its encoding counts; without one the caller's counts
    merged.content_encoding = made.content_encoding or merged.content_encoding
    merged.message_id = overrides.get("message_id") or merged.message_id or made.message_id
    if merged.delivery_mode is None or "persistent" in overrides:
        merged.delivery_mode = made.delivery_mode
    return merged


def _check_encodes(properties: Properties) -> None:
    try:
        encode_header_payload(properties, 0)
    except (ValueError, TypeError, AttributeError) as error:
        raise CannotConvert(f"the properties of the message cannot be written: {error}") from None


def _check_name(kind: str, name: str) -> None:
    if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise ValueError(f"the {kind} has more than {NAME_BYTES_MAX} bytes, and AMQP has no room for more")


class TransactionBuffer:
    """Messages that are collected until they are sent or dropped."""

    def __init__(self, outgoing_of: Callable[[object, Overrides], Outgoing]) -> None:
        self._outgoing_of = outgoing_of
        self._messages: list[Outgoing] = []
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def send(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """Collect a message and return its id; `CannotConvert` if it cannot be sent."""
        self._check_open()
        outgoing = self._outgoing_of(payload, overrides)
        self._messages.append(outgoing)
        return message_id_of(outgoing)

    def drop(self) -> None:
        self._is_over = True

    def end(self) -> list[Outgoing]:
        """The messages to send, once."""
        self._check_open()
        self._is_over = True
        return self._messages

    def _check_open(self) -> None:
        if self._is_over:
            raise ValueError("this transaction is over; begin another one")


class Transaction(TransactionBuffer):
    """For `async with`: committed at the end of the block, unless it was committed or dropped before."""

    def __init__(
        self, transport: Transport, outgoing_of: Callable[[object, Overrides], Outgoing], timeout_s: float | None
    ) -> None:
        super().__init__(outgoing_of)
        self._transport = transport
        self._timeout_s = timeout_s

    async def commit(self) -> None:
        """Return when the broker has all messages; the `outcome` of an error says whether it has none."""
        if messages := self.end():
            await self._transport.publish_together(messages, self._timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None and not self._is_over:
            await self.commit()
        else:
            self.drop()


WINDOW_PARTS = 4
LOGGER = logging.getLogger("warren.client.template")

Submitted = tuple[Outgoing, "asyncio.Future[str]"]


class SubmitWindow:
    """The undecided messages of one template."""

    def __init__(self, transport: Transport, size: int, timeout_s: float | None) -> None:
        if size < 1:
            raise ValueError("a window has room for one message at least")
        self._transport = transport
        self._timeout_s = timeout_s
        self._part_size = max(1, size // WINDOW_PARTS)
        self._room = asyncio.Semaphore(size)
        self._gathered: list[Submitted] = []
        # the loop holds only weak references to tasks
        self._publishing: set[asyncio.Task[None]] = set()

    async def submit(self, outgoing: Outgoing) -> "asyncio.Future[str]":
        """Wait for room; the future has the message's id when the broker has it, or the error."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        if not self._gathered:
            loop.call_soon(self._publish_gathered)
        self._gathered.append((outgoing, future))
        return future

    async def drain(self) -> None:
        """Return when nothing is undecided; failures are in the futures."""
        self._publish_gathered()
        while self._publishing:
            await asyncio.wait(self._publishing)

    def _publish_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), self._part_size):
            task = asyncio.get_running_loop().create_task(self._publish(gathered[start : start + self._part_size]))
            self._publishing.add(task)
            task.add_done_callback(self._publishing.discard)

    async def _publish(self, part: list[Submitted]) -> None:
        decisions: Sequence[BaseException | None]
        try:
            decisions = await self._transport.publish([outgoing for outgoing, _ in part], self._timeout_s)
        except ClientError as error:
            decisions = [error] * len(part)
        except BaseException as error:
            _decide_all(part, [error] * len(part))
            raise
        finally:
            for _ in part:
                self._room.release()
        _decide_all(part, decisions)
        _log_failures(part, decisions)


def _decide_all(part: list[Submitted], decisions: "Sequence[BaseException | None]") -> None:
    for (outgoing, future), error in zip(part, decisions, strict=True):
        if error is not None:
            _fail(future, error)
        elif not future.done():
            future.set_result(message_id_of(outgoing))


def _log_failures(part: list[Submitted], decisions: "Sequence[BaseException | None]") -> None:
    failures = [(at, error) for at, error in enumerate(decisions) if error is not None]
    if failures:
        at, error = failures[0]
        facts = {"failed": len(failures), "of": len(part), "first_id": message_id_of(part[at][0]), "error": str(error)}
        LOGGER.warning("submitted messages failed, the first: %s", error, extra=facts)


def _fail(future: "asyncio.Future[str]", error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)


class Template:
    """Sends payloads. An `Outgoing` from `prepare` is sent as it is."""

    def __init__(
        self,
        transport: Transport,
        *,
        exchange: str = "",
        routing_key: str = "",
        converter: Converter | None = None,
        mandatory: bool = True,
        persistent: bool = True,
        timeout_s: float | None = SEND_TIMEOUT_S,
        window: int = WINDOW,
    ) -> None:
        """Without a converter payloads become JSON; without a `timeout_s` a call waits without limit."""
        self._transport = transport
        self._timeout_s = timeout_s
        self._standing = TemplateDefaults(exchange, routing_key, converter or CONVERTERS["json"], mandatory, persistent)
        self._window = SubmitWindow(transport, window, timeout_s)

    @classmethod
    def of(cls, transport: Transport, settings: TemplateSettings) -> Self:
        """A template from settings."""
        return cls(
            transport,
            exchange=settings.exchange,
            routing_key=settings.routing_key,
            converter=CONVERTERS[settings.converter],
            mandatory=settings.mandatory,
            persistent=settings.persistent,
            timeout_s=settings.timeout_s,
            window=settings.window,
        )

    def prepare(self, payload: object, **overrides: Unpack[Overrides]) -> Outgoing:
        """The message that would be sent; for sending later, or as one of a batch with its own overrides."""
        return self._outgoing(payload, overrides)

    async def send(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """Return the message's id when the broker has it; else raise the error with the outcome."""
        outgoing = self._outgoing(payload, overrides)
        [error] = await self._transport.publish([outgoing], self._timeout_s)
        if error is not None:
            raise error
        return message_id_of(outgoing)

    async def send_batch(self, payloads: Iterable[object], **overrides: Unpack[Overrides]) -> list[str]:
        """Return the ids when the broker has all messages; else raise `BatchFailed` with those it has not."""
        if "message_id" in overrides:
            raise ValueError("the messages of a batch have an id each; give it with prepare")
        batch = [self._outgoing(payload, overrides) for payload in payloads]
        decisions = await self._transport.publish(batch, self._timeout_s) if batch else []
        ids = [message_id_of(outgoing) for outgoing in batch]
        failures = [(id, error) for id, error in zip(ids, decisions, strict=True) if error is not None]
        if failures:
            raise BatchFailed(failures, len(batch))
        return ids

    def transaction(self) -> Transaction:
        """An `async with` block; when it is left, all messages sent in it are committed, or none."""
        return Transaction(self._transport, self._outgoing, self._timeout_s)

    async def submit(self, payload: object, **overrides: Unpack[Overrides]) -> "asyncio.Future[str]":
        """A future with the result of `send`, as soon as the window has room."""
        return await self._window.submit(self._outgoing(payload, overrides))

    async def drain(self) -> None:
        """Return when all submitted messages are decided; failures are in the futures."""
        await self._window.drain()

    async def send_one_way(self, payload: object, **overrides: Unpack[Overrides]) -> str:
        """Return the message's id when it is handed over; its outcome is not reported."""
        outgoing = self._outgoing(payload, overrides)
        await self._transport.send([outgoing])
        return message_id_of(outgoing)

    def _outgoing(self, payload: object, overrides: Overrides) -> Outgoing:
        if not isinstance(payload, Outgoing):
            return prepare_message(payload, self._standing, overrides)
        if overrides:
            raise ValueError("a prepared message is sent unchanged; give these arguments to prepare")
        return payload


@asynccontextmanager
async def open_template(settings: Settings) -> AsyncIterator[Template]:
    """A template with its own transport."""
    transport = await open_transport(settings)
    try:
        template = Template.of(transport, settings.template)
        yield template
        await template.drain()
    finally:
        await transport.close()


async def open_transport(settings: Settings) -> Transport:
    """A transport with the layout of the settings declared."""
    transport = await recovering.open(settings.url, name=settings.name)
    try:
        await transport.declare(settings.layout)
    except BaseException:
        await transport.close()
        raise
    return transport


ALTERNATE_ARGUMENT = "alternate-exchange"


def with_alternate(exchange: ExchangeLayout) -> Layout:
    """The exchange, its alternate and the queue behind it, in the order of declaring."""
    alternate, queue = _unrouted_names(exchange.name)
    catching = ExchangeLayout(alternate, "fanout", exchange.durable)
    guarded = replace(exchange, arguments={**exchange.arguments, ALTERNATE_ARGUMENT: alternate})
    return Layout(
        (catching, guarded), (QueueLayout(queue, durable=exchange.durable),), (BindingLayout(alternate, queue),)
    )


def _unrouted_names(exchange: str) -> tuple[str, str]:
    stem = exchange.removesuffix(ENDINGS["exchange"])
    if stem == exchange:
        return f"{exchange}.unrouted", f"{exchange}.unrouted"
    return f"{stem}_UNROUTED{ENDINGS['exchange']}", f"{stem}_UNROUTED{ENDINGS['queue']}"
