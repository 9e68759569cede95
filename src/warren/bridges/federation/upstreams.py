"""Upstreams: their parameters, and which of them a federated exchange or queue uses.

A policy names one upstream, a set of them, or a pattern of names; the set `all` has every upstream of the virtual host.
An element of a set may override settings of its upstream. Invalid parameters are left out or get their defaults.

A link enters this broker as the definer of its upstream, so that user decides what it reads here and whether it passes
on the user ids of others. A set that another user defined may not override that, unless that user is an administrator.

Not here: links (`bridges.federation.link_set`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, final

from warren.bridges.connections import parse_local_uri, redacted_uri
from warren.bridges.field_checks import (
    DefinitionField,
    boolean,
    field_errors,
    one_of,
    quoted,
    seconds,
    short_text,
    text,
    uris,
    whole_number,
)
from warren.bridges.host import FederatedObject
from warren.bridges.transfer_options import ACK_MODES, ON_CONFIRM, AckMode
from warren.broker.model.name_pattern import NamePattern
from warren.broker.policies.parameters import Parameter, ParameterComponent

UPSTREAM: Final = "federation-upstream"
UPSTREAM_SET: Final = "federation-upstream-set"
UPSTREAM_PATTERN: Final = "federation-upstream-pattern"
ALL: Final = "all"

PREFETCH: Final = 1000
RECONNECT_DELAY_S: Final = 5.0
# RabbitMQ takes 0 for an endless loop without a pause
RECONNECT_DELAY_MIN_S: Final = 0.1
MAX_HOPS: Final = 1

Fields = Mapping[str, object]


@dataclass(frozen=True)
class FederationUpstream:
    """One upstream as one federated object sees it."""

    name: str
    uris: tuple[str, ...]
    exchange: str
    queue: str
    consumer_tag: str
    prefetch: int = PREFETCH
    reconnect_delay_s: float = RECONNECT_DELAY_S
    max_hops: int = MAX_HOPS
    expires_ms: int | None = None
    message_ttl_ms: int | None = None
    trust_user_id: bool = False
    ack_mode: AckMode = ON_CONFIRM
    bind_nowait: bool = False
    keeps_resources: bool = False
    definer: str | None = ""

    @property
    def shown_uri(self) -> str:
        """The URI to show while none has answered."""
        return redacted_uri(self.uris[0])


class FederationUpstreams:
    """All upstreams and upstream sets, by virtual host and name."""

    def __init__(
        self,
        upstreams: Iterable[Parameter],
        sets: Iterable[Parameter],
        is_administrator: Callable[[str | None], bool] = lambda definer: definer == "",
    ) -> None:
        """`is_administrator` judges the definer of a set."""
        self._upstreams = {(each.vhost, each.name): each for each in upstreams}
        self._sets = {(each.vhost, each.name): each for each in sets}
        self._is_administrator = is_administrator

    def of(self, federated: FederatedObject) -> list[FederationUpstream]:
        """The existing upstreams that the object's policy names."""
        found = []
        for element in self._elements(federated):
            parameter = self._upstreams.get((federated.vhost, _text(element, "upstream")))
            if parameter is None or self._refusal(federated, element, parameter):
                continue
            if isinstance(parameter.value, dict):
                upstream = _upstream(element, parameter.value, federated, parameter.definer)
                if upstream.uris:
                    found.append(upstream)
        return found

    def missing(self, federated: FederatedObject) -> list[tuple[str, str]]:
        """Names in the policy that do not exist or cannot be used, each with a sentence."""
        vhost, policy = federated.vhost, federated.policy
        set_name = policy.get(UPSTREAM_SET)
        if isinstance(set_name, str) and set_name != ALL and (vhost, set_name) not in self._sets:
            said = f"the policy names the upstream set {set_name!r}, which virtual host {vhost!r} does not have"
            return [(set_name, f"{said}: set the parameter {UPSTREAM_SET} of that name, or change the policy")]
        said = "the policy names" if set_name is None else f"the upstream set {set_name!r} names"
        ending = f"which virtual host {vhost!r} does not have: set the parameter {UPSTREAM} of that name"
        found = []
        for element in self._elements(federated):
            name = _text(element, "upstream")
            parameter = self._upstreams.get((vhost, name))
            if parameter is None:
                found.append((name, f"{said} the upstream {name!r}, {ending}"))
            elif refusal := self._refusal(federated, element, parameter):
                found.append((name, refusal))
        return found

    def _refusal(self, federated: FederatedObject, element: Fields, upstream: Parameter) -> str:
        """Why an element of a set may not override its upstream; empty if it may."""
        chosen = self._sets.get((federated.vhost, str(federated.policy.get(UPSTREAM_SET))))
        if chosen is None or not isinstance(upstream.value, dict) or self._is_administrator(chosen.definer):
            return ""
        if chosen.definer is not None and chosen.definer == upstream.definer:
            return ""
        given = upstream.value
        changed = [name for name in _for_definer(given) if element.get(name, False) not in (False, given.get(name))]
        if not changed:
            return ""
        said = f"the upstream set {chosen.name!r} changes {', '.join(changed)} of the upstream {upstream.name!r}"
        return f"{said}: only the definer of the upstream and administrators may define such a set"

    def _elements(self, federated: FederatedObject) -> list[Fields]:
        policy = federated.policy
        names = sorted(name for vhost, name in self._upstreams if vhost == federated.vhost)
        if UPSTREAM in policy:
            return [{"upstream": policy[UPSTREAM]}]
        if UPSTREAM_PATTERN in policy:
            pattern = NamePattern(str(policy[UPSTREAM_PATTERN]))
            return [{"upstream": name} for name in names if pattern.matches(name)]
        set_name = policy.get(UPSTREAM_SET)
        if set_name == ALL:
            return [{"upstream": name} for name in names]
        chosen = self._sets.get((federated.vhost, str(set_name)))
        elements = chosen.value if chosen is not None and isinstance(chosen.value, list) else []
        return [element for element in elements if isinstance(element, dict)]


def _for_definer(upstream: Fields) -> list[str]:
    """The fields that decide what a link may do as the definer of its upstream. The login of another broker is in the
    URI, and that broker decides what it may read."""
    uris = upstream.get("uri")
    enters_here = any(parse_local_uri(str(uri)) for uri in (uris if isinstance(uris, list) else [uris]))
    return ["exchange", "queue", "trust-user-id"] if enters_here else ["trust-user-id"]


def _upstream(
    element: Fields, definition: Fields, federated: FederatedObject, definer: str | None
) -> FederationUpstream:
    said: Fields = {**definition, **element}
    name = _text(element, "upstream")
    uris = said.get("uri")
    ack_mode = said.get("ack-mode")
    return FederationUpstream(
        name=name,
        uris=tuple(str(uri) for uri in (uris if isinstance(uris, list) else [uris])),
        exchange=_text(said, "exchange") or federated.name,
        queue=_text(said, "queue") or federated.name,
        consumer_tag=_text(said, "consumer-tag") or f"federation-link-{name}",
        prefetch=max(0, int(_number(said, "prefetch-count", PREFETCH))),
        reconnect_delay_s=max(RECONNECT_DELAY_MIN_S, _number(said, "reconnect-delay", RECONNECT_DELAY_S)),
        max_hops=int(_number(said, "max-hops", MAX_HOPS)),
        expires_ms=_milliseconds(said, "expires"),
        message_ttl_ms=_milliseconds(said, "message-ttl"),
        trust_user_id=said.get("trust-user-id") is True,
        ack_mode=ack_mode if ack_mode in ACK_MODES else ON_CONFIRM,
        bind_nowait=said.get("bind-nowait") is True,
        keeps_resources=said.get("resource-cleanup-mode") == "never",
        definer=definer,
    )


def _text(said: Fields, name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _number(said: Fields, name: str, default: float) -> float:
    value = said.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default


def _milliseconds(said: Fields, name: str) -> int | None:
    value = _number(said, name, -1)
    return None if value < 0 else int(value)


MILLISECONDS_MAX: Final = 0xFFFFFFFF
PREFETCH_MAX: Final = 0xFFFF
HOPS_MAX: Final = 0x7FFF

SHARED: Final = (
    DefinitionField("exchange", short_text),
    DefinitionField("queue", short_text),
    DefinitionField("consumer-tag", short_text),
    DefinitionField("prefetch-count", whole_number(0, PREFETCH_MAX)),
    DefinitionField("reconnect-delay", seconds),
    DefinitionField("max-hops", whole_number(1, HOPS_MAX)),
    DefinitionField("expires", whole_number(1, MILLISECONDS_MAX)),
    DefinitionField("message-ttl", whole_number(0, MILLISECONDS_MAX)),
    DefinitionField("trust-user-id", boolean),
    DefinitionField("ack-mode", one_of("no-ack", "on-publish", "on-confirm")),
    DefinitionField("resource-cleanup-mode", one_of("default", "never")),
    DefinitionField("ha-policy", text),
    DefinitionField("bind-nowait", boolean),
    DefinitionField("channel-use-mode", one_of("multiple", "single")),
)
UPSTREAM_FIELDS: Final = (DefinitionField("uri", uris, mandatory=True), *SHARED)
SET_FIELDS: Final = (DefinitionField("upstream", text, mandatory=True), *SHARED)


@final
class UpstreamComponent(ParameterComponent):
    """Parameters `federation-upstream`."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return field_errors(parameter.name, UPSTREAM_FIELDS, parameter.value)


@final
class UpstreamSetComponent(ParameterComponent):
    """Parameters `federation-upstream-set`: lists of upstreams, which may not exist yet."""

    def refusals(self, parameter: Parameter) -> list[str]:
        elements = [] if parameter.value == {} else parameter.value
        if not isinstance(elements, list):
            return [f"{parameter.name} should be a list of upstreams, actually was {quoted(parameter.value)}"]
        return [reason for element in elements for reason in field_errors(parameter.name, SET_FIELDS, element)]


@final
class LocalComponent(ParameterComponent):
    """Parameters `federation`; RabbitMQ had some once and has none."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return [f"name not recognised: {quoted(parameter.name)}"]
