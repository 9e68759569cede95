"""OpenTelemetry traces and metrics for a transport.

    transport = Traced(transport)

Publishing a message is a producer span, which ends when the publish is decided. Its context travels in the W3C headers
`traceparent` and `tracestate`. Handling a message is a consumer span, with that context as parent and link; it ends
when the message is settled. So publishing and handling are one trace, however far apart in time and place. `in_span`
runs a handler within the consumer span.

A message that has a `traceparent` keeps it (an outbox sends a context that `stamped` wrote long before), and the spans
of publishing and handling it are both its children.

Names and attributes follow OpenTelemetry's conventions for messaging. In span names and metrics the destination is the
exchange or the queue, never a routing key, of which there may be any number.

Invariants: results and errors of the wrapped transport are passed on unchanged; a message is changed only in its two
headers; invalid headers are ignored.

    traces ── metrics      the transport, messages and contexts; counters and durations
       └───────── conventions      names and attributes

Not here: exporting spans and metrics (OpenTelemetry's SDK, which the program configures).
"""

try:
    import opentelemetry.trace  # noqa: F401 - checked here, for all modules of the package
except ImportError:
    raise ImportError("warren.client.telemetry needs OpenTelemetry: install warren[telemetry]") from None

from warren.client.telemetry.metrics import observe
from warren.client.telemetry.traces import Traced, in_span, stamped

__all__ = ["Traced", "in_span", "observe", "stamped"]
