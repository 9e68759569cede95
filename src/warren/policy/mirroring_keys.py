"""The keys with which a policy asks for mirrors, and how they depend on one another.

`ha-min-in-sync` and `ha-confirm` are Warren's own: how many copies there must be for a publish to be taken, and
whether a confirm waits for all of them or for the master alone.

Not here: the other keys (`policy.keys`), mirroring itself.
"""

from typing import Final

from warren.model.json_terms import json_term
from warren.wire.values import Table

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
    """Why what a definition says of mirrors cannot be accepted; empty if it can, or says nothing."""
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
        if PARAMS in definition and _is_positive(definition[PARAMS]):
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
    if key not in definition or _is_positive(definition[key]):
        return ""
    return f"{key} takes an integer greater than 0, {json_term(definition[key])} given"


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
