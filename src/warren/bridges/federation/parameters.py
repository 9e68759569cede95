"""What makes a good upstream, and a good set of upstreams.

Not here: what they mean (`federation.upstream`).
"""

from typing import Final, final

from warren.bridges.checking import (
    Field,
    boolean,
    one_of,
    properties,
    quoted,
    seconds,
    short_text,
    text,
    uris,
    whole_number,
)
from warren.policy.parameters import Parameter, ParameterComponent

MILLISECONDS_MAX: Final = 0xFFFFFFFF
PREFETCH_MAX: Final = 0xFFFF
HOPS_MAX: Final = 0x7FFF

SHARED: Final = (
    Field("exchange", short_text),
    Field("queue", short_text),
    Field("consumer-tag", short_text),
    Field("prefetch-count", whole_number(0, PREFETCH_MAX)),
    Field("reconnect-delay", seconds),
    Field("max-hops", whole_number(1, HOPS_MAX)),
    Field("expires", whole_number(1, MILLISECONDS_MAX)),
    Field("message-ttl", whole_number(0, MILLISECONDS_MAX)),
    Field("trust-user-id", boolean),
    Field("ack-mode", one_of("no-ack", "on-publish", "on-confirm")),
    Field("resource-cleanup-mode", one_of("default", "never")),
    Field("ha-policy", text),
    Field("bind-nowait", boolean),
    Field("channel-use-mode", one_of("multiple", "single")),
)
UPSTREAM_FIELDS: Final = (Field("uri", uris, mandatory=True), *SHARED)
SET_FIELDS: Final = (Field("upstream", text, mandatory=True), *SHARED)


@final
class UpstreamComponent(ParameterComponent):
    """Parameters `federation-upstream`."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return properties(parameter.name, UPSTREAM_FIELDS, parameter.value)


@final
class UpstreamSetComponent(ParameterComponent):
    """Parameters `federation-upstream-set`: lists of upstreams that may not be there yet."""

    def refusals(self, parameter: Parameter) -> list[str]:
        elements = [] if parameter.value == {} else parameter.value
        if not isinstance(elements, list):
            return [f"{parameter.name} should be a list of upstreams, actually was {quoted(parameter.value)}"]
        return [reason for element in elements for reason in properties(parameter.name, SET_FIELDS, element)]


@final
class LocalComponent(ParameterComponent):
    """Parameters `federation`, of which RabbitMQ once had some, and has none."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return [f"name not recognised: {quoted(parameter.name)}"]
