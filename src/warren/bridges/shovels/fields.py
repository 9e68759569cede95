"""The fields of a shovel's definition, and all that can be wrong with them.

RabbitMQ takes what it will stumble over later: a queue without a name, a name, a number or a prefetch that AMQP has no
room for, a shovel onto its own queue. That is told here, when somebody who can put it right is listening.

Not here: what the fields mean (`shovels.definition`).
"""

from typing import Final

from warren.bridges.carrying.terms import NO_ACK, ON_CONFIRM
from warren.bridges.checking import (
    Field,
    arguments,
    boolean,
    one_of,
    properties,
    quoted,
    seconds,
    short_text,
    timestamp,
    uris,
    whole_number,
)
from warren.bridges.shovels.definition import NEVER, QUEUE_LENGTH, shovel_of
from warren.bridges.shovels.loops import refusal_of_loop
from warren.policy.parameters import Parameter, ParameterComponent

PROTOCOL: Final = "amqp091"


class ShovelComponent(ParameterComponent):
    """Parameters of the component `shovel`."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return refusals(parameter)


def refusals(parameter: Parameter) -> list[str]:
    """All that is wrong with a shovel's definition."""
    value = {} if parameter.value == [] else parameter.value
    if not isinstance(value, dict):
        return [f"{parameter.name} not a list {quoted(value)}"]
    reasons = _ends(value) + properties(parameter.name, FIELDS, value)
    return reasons or refusal_of_loop(shovel_of(parameter))


def _ends(value: dict[str, object]) -> list[str]:
    """What two fields say together."""
    reasons = []
    if "src-queue" in value and "src-exchange" in value:
        reasons.append("Cannot specify 'src-exchange' and 'src-queue'")
    if "src-queue" not in value and "src-exchange" not in value:
        reasons.append("Must specify 'src-exchange' or 'src-queue'")
    if "dest-queue" in value and "dest-exchange" in value:
        reasons.append("Cannot specify 'dest-exchange' and 'dest-queue'")
    after = value.get("src-delete-after", value.get("delete-after"))
    if value.get("ack-mode") == NO_ACK and isinstance(after, int):
        reasons.append("Cannot specify 'no-ack' and numerical 'delete-after'")
    if value.get("dest-mandatory") is True and value.get("ack-mode", ON_CONFIRM) != ON_CONFIRM:
        reasons.append("Cannot specify 'dest-mandatory' and an 'ack-mode' that does not wait for confirms")
    return reasons


def _protocol(name: str, value: object) -> list[str]:
    if value == PROTOCOL:
        return []
    return [f'{name} should be "{PROTOCOL}", the one protocol there is here, actually was {quoted(value)}']


def _name(name: str, value: object) -> list[str]:
    return [f"{name} should be a name, actually was empty"] if value == "" else short_text(name, value)


def _delete_after(name: str, value: object) -> list[str]:
    if value in (NEVER, QUEUE_LENGTH) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return []
    wanted = f'a number greater than or equal to 0, "{NEVER}" or "{QUEUE_LENGTH}"'
    return [f"{name} should be {wanted}, actually was {quoted(value)}"]


def _publish_properties(name: str, value: object) -> list[str]:
    return properties(name, PUBLISH_PROPERTIES, value)


_prefetch = whole_number(0, 65_535)

# in RabbitMQ's order, by which reasons are told
PUBLISH_PROPERTIES: Final = (
    Field("content_type", short_text),
    Field("content_encoding", short_text),
    Field("delivery_mode", whole_number(0, 255)),
    Field("priority", whole_number(0, 255)),
    Field("correlation_id", short_text),
    Field("reply_to", short_text),
    Field("expiration", short_text),
    Field("message_id", short_text),
    Field("timestamp", timestamp),
    Field("type", short_text),
    Field("user_id", short_text),
    Field("app_id", short_text),
    Field("cluster_id", short_text),
)
FIELDS: Final = (
    Field("src-protocol", _protocol),
    Field("dest-protocol", _protocol),
    Field("reconnect-delay", seconds),
    Field("ack-mode", one_of("no-ack", "on-publish", "on-confirm")),
    Field("src-uri", uris, mandatory=True),
    Field("src-exchange", _name),
    Field("src-exchange-key", short_text),
    Field("src-queue", _name),
    Field("src-queue-args", arguments),
    Field("src-consumer-args", arguments),
    Field("prefetch-count", _prefetch),
    Field("src-prefetch-count", _prefetch),
    Field("delete-after", _delete_after),
    Field("src-delete-after", _delete_after),
    Field("dest-uri", uris, mandatory=True),
    Field("dest-exchange", short_text),
    Field("dest-exchange-key", short_text),
    Field("dest-queue", _name),
    Field("dest-queue-args", arguments),
    Field("add-forward-headers", boolean),
    Field("add-timestamp-header", boolean),
    Field("dest-add-forward-headers", boolean),
    Field("dest-add-timestamp-header", boolean),
    Field("publish-properties", _publish_properties),
    Field("dest-publish-properties", _publish_properties),
    Field("dest-mandatory", boolean),
)
