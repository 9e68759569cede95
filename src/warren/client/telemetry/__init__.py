"""Traces and metrics of OpenTelemetry for whatever goes through a transport.

    transport = Traced(transport)

Publishing a message is a span of kind producer, which ends when it is decided what became of it. Its context travels
in the headers `traceparent` and `tracestate`, as the W3C writes them. Handling a message is a span of kind consumer,
whose parent is that context, with a link to it; it ends when the message is settled. So publishing and handling are one
trace, however far apart in time and place. `in_span` makes the consumer's span that of the handler's own work.

A message that has a `traceparent` keeps it (an outbox sends what `stamped` has written long before), and spans of
publishing and handling it are both children of that.

Names and attributes are OpenTelemetry's for messaging. In the names of spans and in metrics a message's place is its
exchange, or the queue that it is sent to or comes from, and never a routing key, of which there may be any number.

Invariants: what the wrapped transport answers or raises is passed on as it is; a message is changed by nothing but its
two headers; headers that make no sense are as if they were not there.

    traced ── incoming ── carrying      the transport, a message in hand, contexts in headers
       └── meters ──────── naming       what is counted, and what everything is called

Not here: where spans and metrics go (OpenTelemetry's SDK, which the program configures).
"""

from warren.client.telemetry.metrics import observe
from warren.client.telemetry.traces import Traced, in_span, stamped

try:
    import opentelemetry.trace  # noqa: F401 - what is missing is said here, for all modules of the package
except ImportError:
    raise ImportError("warren.client.telemetry needs OpenTelemetry: install warren[telemetry]") from None


__all__ = ["Traced", "in_span", "observe", "stamped"]
