"""Layouts: merging, filtering, and declaring them on a connection.

An exclusive queue belongs to the connection that declares it. So the consuming connection declares everything, and the
publishing one everything but exclusive queues and their bindings.

The first declaration raises when the broker refuses. A declaration after a failure reports each refusal and goes on
with the rest.

Not here: when layouts are declared (`recovering.connection`).
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, SettingsError
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout

Named = TypeVar("Named", ExchangeLayout, QueueLayout)
DeclareStep = tuple[str, Callable[[Channel], Awaitable[object]]]
"""The name for messages, and the call."""

UNUSED_QUEUES_MAX: Final = 256


def merge_layouts(known: Layout, more: Layout) -> Layout:
    """Both layouts; the later one counts for names in both."""
    return Layout(
        _by_name(known.exchanges + more.exchanges),
        _by_name(known.queues + more.queues),
        known.bindings + tuple(each for each in more.bindings if each not in known.bindings),
    )


def without_exclusive(layout: Layout) -> Layout:
    """Without exclusive queues and their bindings."""
    exclusive = {queue.name for queue in layout.queues if queue.exclusive}
    return Layout(
        layout.exchanges,
        tuple(queue for queue in layout.queues if not queue.exclusive),
        tuple(each for each in layout.bindings if each.to_exchange or each.destination not in exclusive),
    )


def layout_of_queue(layout: Layout, name: str) -> Layout:
    """A queue and its bindings."""
    return Layout(
        (),
        tuple(queue for queue in layout.queues if queue.name == name),
        tuple(each for each in layout.bindings if not each.to_exchange and each.destination == name),
    )


def without_auto_delete(layout: Layout, name: str) -> Layout:
    """Without a queue and its bindings if the broker deletes it without consumers; else the same layout."""
    if not any(_is_auto_delete(queue) for queue in layout.queues if queue.name == name):
        return layout
    return Layout(
        layout.exchanges,
        tuple(queue for queue in layout.queues if queue.name != name),
        tuple(each for each in layout.bindings if each.to_exchange or each.destination != name),
    )


class UnusedQueues:
    """Self-deleting queues without a subscription, with their bindings.

    A queue returns to the layout when it gets a subscription. Only the latest ones are kept, because a program that
    generates queue names does not use them again.
    """

    def __init__(self) -> None:
        self._parts: OrderedDict[str, Layout] = OrderedDict()

    def put(self, layout: Layout, name: str) -> Layout:
        """The layout without a queue if it deletes itself; that queue is kept here."""
        rest = without_auto_delete(layout, name)
        if rest is not layout:
            self._parts[name] = layout_of_queue(layout, name)
            while len(self._parts) > UNUSED_QUEUES_MAX:
                self._parts.popitem(last=False)
        return rest

    def take(self, layout: Layout, name: str) -> Layout:
        """The layout with a queue that was put here, unless the queue was declared again meanwhile."""
        part = self._parts.pop(name, None)
        is_declared = any(queue.name == name for queue in layout.queues)
        return layout if part is None or is_declared else merge_layouts(layout, part)


def check_layout(layout: Layout) -> None:
    names = [exchange.name for exchange in layout.exchanges] + [queue.name for queue in layout.queues]
    if not all(names):
        raise SettingsError("every queue and exchange of a layout has a name, so that it can be declared again")


async def declare_layout(connection: Connection, layout: Layout) -> None:
    """Declare a layout; `ChannelClosed` if the broker refuses a part."""
    async with await connection.channel() as channel:
        for _, step in _steps(layout):
            await step(channel)


async def redeclare_layout(
    connection: Connection, layout: Layout, refused: Callable[[str, ChannelClosed], None]
) -> None:
    """Declare what the broker accepts."""
    channel: Channel | None = None
    for name, step in _steps(layout):
        if channel is None or not channel.is_open:
            channel = await connection.channel()
        try:
            await step(channel)
        except ChannelClosed as error:
            refused(name, error)
    if channel is not None:
        await channel.close()


def _is_auto_delete(queue: QueueLayout) -> bool:
    return queue.auto_delete or "x-expires" in queue.arguments


def _by_name(layouts: tuple[Named, ...]) -> tuple[Named, ...]:
    return tuple({each.name: each for each in layouts}.values())


def _steps(layout: Layout) -> Iterator[DeclareStep]:
    for exchange in layout.exchanges:
        yield f"exchange {exchange.name!r}", _exchange(exchange)
    for queue in layout.queues:
        yield f"queue {queue.name!r}", _queue(queue)
    for binding in layout.bindings:
        yield f"the binding from {binding.source!r} to {binding.destination!r}", _binding(binding)


def _exchange(layout: ExchangeLayout) -> Callable[[Channel], Awaitable[object]]:
    return lambda channel: channel.declare_exchange(
        layout.name, layout.kind, durable=layout.durable, arguments=layout.arguments
    )


def _queue(layout: QueueLayout) -> Callable[[Channel], Awaitable[object]]:
    return lambda channel: channel.declare_queue(
        layout.name,
        durable=layout.durable,
        exclusive=layout.exclusive,
        auto_delete=layout.auto_delete,
        arguments=layout.arguments,
    )


def _binding(layout: BindingLayout) -> Callable[[Channel], Awaitable[object]]:
    def bind(channel: Channel) -> Awaitable[object]:
        call = channel.bind_exchange if layout.to_exchange else channel.bind_queue
        return call(layout.destination, layout.source, layout.routing_key, layout.arguments)

    return bind
