"""Names of spans, attributes and metrics: OpenTelemetry's for messaging, and ours where it has none.

Not here: their use (`telemetry.traces`, `telemetry.metrics`).
"""

from typing import Final

from opentelemetry.trace import Span, Status, StatusCode

from warren.client.measures import DESTINATION
from warren.client.transport import Outgoing
from warren.wire.properties import Properties

Attributes = dict[str, str | int | bool]

SCOPE: Final = "warren.client"
SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
ROUTING_KEY: Final = "messaging.rabbitmq.destination.routing_key"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION_ID: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
ERROR_TYPE: Final = "error.type"
REDELIVERED: Final = "warren.redelivered"
SETTLEMENT: Final = "warren.settlement"
OUTCOME: Final = "warren.outcome"


def span_attributes(name: str, kind: str, place: str, key: str, properties: Properties, body: bytes) -> Attributes:
    """The attributes of a span."""
    always: Attributes = {SYSTEM: "rabbitmq", OPERATION_NAME: name, OPERATION_TYPE: kind, BODY_SIZE: len(body)}
    said = {
        DESTINATION: place,
        ROUTING_KEY: key,
        MESSAGE_ID: properties.message_id,
        CONVERSATION_ID: properties.correlation_id,
    }
    # text that is not UTF-8 would cost the exporter its whole batch
    return always | {name: text.encode(errors="replace").decode() for name, text in said.items() if text}


def fail_span(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def routing_key_of_outgoing(outgoing: Outgoing) -> str:
    own = outgoing.message.routing_key
    return outgoing.routing_key if own is None else own


def destination_of(outgoing: Outgoing) -> str:
    """The exchange; for the default exchange the queue that the key names."""
    return outgoing.exchange or routing_key_of_outgoing(outgoing)


def destination_name(*names: str) -> str:
    """Exchange, routing key and queue in OpenTelemetry's form; empty and repeated names are left out."""
    return ":".join(dict.fromkeys(name for name in names if name))
