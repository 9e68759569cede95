"""The keys of a policy's definition, and the values that each accepts.

The checks run in RabbitMQ's order, and each refusal is worded as RabbitMQ words it, Erlang terms included: first the
master locator, then all keys in order, then mirroring, then federation, and unknown keys last.

Differences from RabbitMQ 3.10: values that crash its check (a `max-age` that is no text, an `ha-mode` that is a number)
are refused like others. `ha-min-in-sync`, `ha-confirm` and `dedup-window` are Warren's own: how many copies a publish
needs, whether a confirm waits for all of them or only for the master, and how many publishing ids are kept.

Not here: the rest of a policy (`broker.policies.validation`), the effect of the keys (`broker.queues.settings`,
`broker.routing.topology`, `broker.replication.mirroring_policy`).
"""

from collections.abc import Callable
from typing import Final

from warren.broker.model.erlang_terms import json_term
from warren.broker.model.name_pattern import NamePattern
from warren.wire.field_tables import Table

MODE: Final = "ha-mode"
PARAMS: Final = "ha-params"
SYNC_MODE: Final = "ha-sync-mode"
SYNC_BATCH_SIZE: Final = "ha-sync-batch-size"
PROMOTE_ON_SHUTDOWN: Final = "ha-promote-on-shutdown"
PROMOTE_ON_FAILURE: Final = "ha-promote-on-failure"
MIN_IN_SYNC: Final = "ha-min-in-sync"
CONFIRM: Final = "ha-confirm"

MIRRORING_KEYS: Final = (
    MODE,
    PARAMS,
    SYNC_MODE,
    SYNC_BATCH_SIZE,
    PROMOTE_ON_SHUTDOWN,
    PROMOTE_ON_FAILURE,
    MIN_IN_SYNC,
    CONFIRM,
)


def mirroring_refusal(definition: Table) -> str:
    """Why the mirroring keys of a definition are refused; empty if they are accepted, or absent."""
    given = [key for key in MIRRORING_KEYS if key in definition]
    if not given:
        return ""
    if MODE not in definition:
        return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    return (
        _params_refusal(definition)
        or _choice_refusal(definition, SYNC_MODE, "manual", "automatic")
        or _number_refusal(definition, SYNC_BATCH_SIZE)
        or _choice_refusal(definition, PROMOTE_ON_SHUTDOWN, "always", "when-synced")
        or _choice_refusal(definition, PROMOTE_ON_FAILURE, "always", "when-synced")
        or _number_refusal(definition, MIN_IN_SYNC)
        or _choice_refusal(definition, CONFIRM, "all", "master")
    )


def _params_refusal(definition: Table) -> str:
    mode = definition[MODE]
    if mode == "all":
        return 'ha-mode="all" does not take parameters' if PARAMS in definition else ""
    if mode == "exactly":
        if PARAMS in definition and _is_positive_count(definition[PARAMS]):
            return ""
        return f'ha-mode="exactly" takes an integer, {_given(definition)} given'
    if mode == "nodes":
        return _nodes_refusal(definition)
    return f"{json_term(mode)} is not a valid ha-mode value"


def _nodes_refusal(definition: Table) -> str:
    nodes = definition.get(PARAMS)
    if not isinstance(nodes, list):
        return f'ha-mode="nodes" takes a list, {_given(definition)} given'
    if not nodes:
        return 'ha-mode="nodes" list must be non-empty'
    others: list[object] = [node for node in nodes if not isinstance(node, str)]
    if others:
        return f'ha-mode="nodes" takes a list of strings, {json_term(others)} was not a string'
    return ""


def _given(definition: Table) -> str:
    return json_term(definition[PARAMS]) if PARAMS in definition else "none"


def _choice_refusal(definition: Table, key: str, one: str, other: str) -> str:
    if key not in definition or definition[key] in (one, other):
        return ""
    return f'{key} must be "{one}" or "{other}", got {json_term(definition[key])}'


def _number_refusal(definition: Table, key: str) -> str:
    if key not in definition or _is_positive_count(definition[key]):
        return ""
    return f"{key} takes an integer greater than 0, {json_term(definition[key])} given"


def _is_positive_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


OPERATOR_KEYS: Final = (
    "delivery-limit",
    "expires",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "message-ttl",
)
"""The keys that an operator policy may have."""

MASTER_LOCATOR: Final = "queue-master-locator"
FEDERATION_KEYS: Final = ("federation-upstream", "federation-upstream-pattern", "federation-upstream-set")

OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
QUEUE_MODES: Final = ("default", "lazy")
MASTER_LOCATORS: Final = ("client-local", "min-masters", "random")
LEADER_LOCATORS: Final = ("client-local", "balanced", "least-leaders", "random")
DEAD_LETTER_STRATEGIES: Final = ("at-most-once", "at-least-once")
AGE_UNITS: Final = "YMDhms"
SHORT_STRING_MAX: Final = 255


def definition_refusal(definition: Table, operator: bool) -> str:
    """Why a definition, in the order of its keys, is refused; empty if it is accepted."""
    if not definition:
        return "no policy provided"
    known = OPERATOR_KEYS if operator else KNOWN_KEYS
    if MASTER_LOCATOR in known and MASTER_LOCATOR in definition:
        value = definition[MASTER_LOCATOR]
        if value not in MASTER_LOCATORS:
            return f"{json_term(value)} invalid queue-master-locator value"
    for key in definition:
        if key in known and key in CHECKS:
            good, wanted = CHECKS[key]
            if not good(definition[key]):
                return f"{json_term(definition[key])} is not a valid {wanted}"
    refusal = ""
    if not operator:
        refusal = mirroring_refusal(definition) or _federation_refusal(definition)
    unknown: list[object] = [(key, definition[key]) for key in definition if key not in known]
    if unknown and not refusal:
        return f"{json_term(unknown)} are not recognised policy settings"
    return refusal


def _federation_refusal(definition: Table) -> str:
    given = [key for key in FEDERATION_KEYS if key in definition]
    if len(given) > 1:
        return "cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together"
    for key in given:
        value = definition[key]
        if not isinstance(value, str):
            return f"{json_term(value)} is not a valid {key.replace('-', ' ')} name"
        if key == "federation-upstream-pattern":
            return pattern_refusal(
                NamePattern(value), f"could not compile pattern {value} to a regular expression. Error"
            )
    return ""


def pattern_refusal(pattern: NamePattern, complaint: str) -> str:
    """The complaint with the error in a regular expression; empty if there is none."""
    if not pattern.fault:
        return ""
    if pattern.unsupported:
        return f"pattern '{pattern.text}' cannot be used: {pattern.fault}"
    fault: list[object] = [ord(character) for character in pattern.fault]
    return f"{complaint}: {json_term((fault, pattern.fault_at), len(complaint) + 2)}"


# -- predicates for values


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_routing_key(value: object) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "surrogateescape")) <= SHORT_STRING_MAX


def _is_overflow(value: object) -> bool:
    return value in OVERFLOWS


def _is_queue_mode(value: object) -> bool:
    return value in QUEUE_MODES


def _is_queue_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in (1, 2)


def _is_strategy(value: object) -> bool:
    return value in DEAD_LETTER_STRATEGIES


def _is_leader_locator(value: object) -> bool:
    return value in LEADER_LOCATORS


def _is_age(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) > 1
        and value[-1] in AGE_UNITS
        and value[:-1].isascii()
        and value[:-1].isdigit()
    )


CHECKS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "alternate-exchange": (_is_text, "alternate exchange name"),
    "dead-letter-exchange": (_is_text, "dead letter exchange name"),
    "dead-letter-routing-key": (_is_routing_key, "dead letter routing key"),
    "dead-letter-strategy": (_is_strategy, "dead letter strategy"),
    "dedup-window": (_is_count, "deduplication window"),
    "delivery-limit": (_is_count, "delivery limit"),
    "expires": (_is_positive_number, "queue expiry"),
    "initial-cluster-size": (_is_count, "cluster size"),
    "max-age": (_is_age, "max age"),
    "max-in-memory-bytes": (_is_count, "maximum memory in bytes"),
    "max-in-memory-length": (_is_count, "maximum memory in bytes"),
    "max-length": (_is_count, "maximum length"),
    "max-length-bytes": (_is_count, "maximum length in bytes"),
    "message-ttl": (_is_count, "message TTL"),
    "overflow": (_is_overflow, "overflow value"),
    "queue-leader-locator": (_is_leader_locator, "queue leader locator value"),
    "queue-mode": (_is_queue_mode, "queue-mode value"),
    "queue-version": (_is_queue_version, "queue-version value"),
    "stream-max-segment-size-bytes": (_is_count, "segment size"),
}
"""For each key that stands alone: the predicate for its value, and RabbitMQ's name for a valid one."""

KNOWN_KEYS: Final = (*CHECKS, MASTER_LOCATOR, *MIRRORING_KEYS, *FEDERATION_KEYS)
