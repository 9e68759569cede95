"""Contexts of traces in the headers of messages, as the W3C writes them.

Not here: whose contexts they are (`telemetry.traced`, `telemetry.incoming`).
"""

from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from warren.client.machine.publishing import Message
from warren.wire.properties import Properties
from warren.wire.values import Table

W3C: Final = TraceContextTextMapPropagator()
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"


def stamped(message: Message) -> Message:
    """The message with the context of the span that is current; the same message if it has one."""
    return message if carried(headers_of(message)) is not None else with_context(message, context.get_current())


def carried(headers: Table) -> context.Context | None:
    """The context that somebody has put there; none if it makes no sense, for anybody may write anything there."""
    if TRACEPARENT not in headers:
        return None
    found = {name: headers.get(name) for name in (TRACEPARENT, TRACESTATE)}
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    extracted = W3C.extract(texts, context.Context())
    return extracted if trace.get_current_span(extracted).get_span_context().is_valid else None


def with_context(message: Message, current: context.Context) -> Message:
    carrier: dict[str, str] = {}
    W3C.inject(carrier, current)
    if not carrier:
        return message
    kept: dict[str, Any] = dict((message.properties or Properties()).fields())
    return Message(
        message.body, Properties(**(kept | {"headers": {**headers_of(message), **carrier}})), message.routing_key
    )


def headers_of(message: Message) -> Table:
    return (message.properties.headers if message.properties is not None else None) or {}
