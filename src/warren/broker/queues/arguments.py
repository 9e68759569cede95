"""The arguments of `queue.declare`: validation, Warren's aliases, and equivalence with an existing queue.

**Validation** runs in RabbitMQ's order, and each refusal has RabbitMQ's text, Erlang terms included, because clients
match on those texts. Arguments that no queue type knows are accepted and ignored; an argument of another queue type is
refused. Differences to RabbitMQ 3.10: `x-delivery-limit` works on every queue and must be a number; an unknown
`x-queue-master-locator` is refused, and does not crash the declaration; `x-ha-mode` and `x-ha-params` request mirrors,
as the keys of a policy do, and are refused with the same texts; `x-copy-from` and `x-copy-routing-key` request copies
of other queues' messages. For streams: an age that is not a number is refused like one without a unit, and does not
close the connection with an internal error; `x-stream-partitions` and `x-warren-dedup-window` are Warren's own.

**Aliases**: `mirrored`, `copy_from` and `routing_key` are replaced by `x-` arguments first. Validation, comparison and
the stored definition know only the `x-` names, so two declarations with different spellings are equivalent.

**Equivalence**: `exclusive` is compared first, then `durable` and `auto_delete`, then the arguments that the queue's
type knows; others are ignored. A redeclaration is only compared, not validated.

Not here: the meaning of the arguments (`broker.queues.settings`, `broker.streams.settings`,
`broker.model.queue_copies`).
"""

from collections.abc import Callable
from typing import Final

from warren.broker.model.deduplication import WINDOW_ARGUMENT
from warren.broker.model.equivalence import compare_argument, compare_flag
from warren.broker.model.erlang_terms import type_name
from warren.broker.model.ports import QueuePort
from warren.broker.model.queue_copies import COPY_FROM, COPY_ROUTING_KEY, SOURCE_NAME, SOURCE_ROUTING_KEY, copy_sources
from warren.broker.model.stream_partitions import PARTITION_OF, PARTITIONS, partitions_refusal
from warren.broker.queues.settings import DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX, TEN_YEARS_MS
from warren.errors import PRECONDITION_FAILED, RESOURCE_LOCKED, ChannelFault
from warren.wire.field_tables import Table

STREAM: Final = "stream"

MAX_AGE: Final = "x-max-age"
SEGMENT_SIZE: Final = "x-stream-max-segment-size-bytes"

STREAM_ARGUMENTS: Final = (
    "x-queue-type",
    "x-max-length-bytes",
    MAX_AGE,
    SEGMENT_SIZE,
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    PARTITIONS,
    WINDOW_ARGUMENT,
    "x-ha-mode",
    "x-ha-params",
)

SEGMENT_BYTES_MAX: Final = 3_000_000_000
AGE_DIGITS_MAX: Final = 9
AGE_UNITS: Final = "YMDhms"


def max_age_refusal(value: object, arguments: Table) -> str:
    if not isinstance(value, str):
        return f"{{unacceptable_type,{type_name(value)}}}"
    count = value[:-1]
    is_age = value[-1:] in AGE_UNITS and count.isascii() and count.isdigit() and len(count) <= AGE_DIGITS_MAX
    return "" if is_age and value and int(count) > 0 else "invalid_max_age"


def check_segment_size(arguments: Table) -> None:
    """Raise RabbitMQ's `ChannelFault` for a segment size above the maximum."""
    size = arguments.get(SEGMENT_SIZE)
    if isinstance(size, int) and size > SEGMENT_BYTES_MAX:
        raise ChannelFault(PRECONDITION_FAILED, f"Exceeded max value for {SEGMENT_SIZE}")


OCTETS_MAX: Final = 255
"""The length of a queue name or a routing key, which are short strings."""


def copy_from_refusal(value: object, arguments: Table) -> str:
    """Why `x-copy-from` is invalid, as an Erlang term; empty if it is valid."""
    if not isinstance(value, list):
        return _source_refusal(value)
    if not value:
        return '"list of queues to copy must be non-empty"'
    for source in value:
        refusal = _source_refusal(source)
        if refusal:
            return refusal
    return ""


def copy_routing_key_refusal(value: object, arguments: Table) -> str:
    """Why `x-copy-routing-key` is invalid; empty if it is valid."""
    if COPY_FROM not in arguments:
        return "routing_key_but_no_copy_from_defined"
    return _pattern_refusal(value)


def own_copy_refusal(queue_name: str, arguments: Table) -> str:
    """Why this queue cannot have these sources; empty if it can."""
    copies_itself = any(source.name == queue_name for source in copy_sources(arguments))
    return '"a queue cannot copy itself"' if copies_itself else ""


def _source_refusal(source: object) -> str:
    if not isinstance(source, dict):
        return _name_refusal(source)
    for key in source:
        if key not in (SOURCE_NAME, SOURCE_ROUTING_KEY):
            return f"\"unknown key '{key}' of a queue to copy\""
    if SOURCE_NAME not in source:
        return f'"{SOURCE_NAME} of a queue to copy is missing"'
    refusal = _name_refusal(source[SOURCE_NAME])
    if not refusal and SOURCE_ROUTING_KEY in source:
        refusal = _pattern_refusal(source[SOURCE_ROUTING_KEY])
    return refusal


def _name_refusal(name: object) -> str:
    if not isinstance(name, str):
        return f"{{unacceptable_type,{type_name(name)}}}"
    return _length_refusal(name) if name else '"name of a queue to copy must be non-empty"'


def _pattern_refusal(pattern: object) -> str:
    return _length_refusal(pattern) if isinstance(pattern, str) else f"{{unacceptable_type,{type_name(pattern)}}}"


def _length_refusal(text: str) -> str:
    return "" if len(text.encode("utf-8", "surrogateescape")) <= OCTETS_MAX else "longer_than_255_octets"


PRIORITY_MAX: Final = 255

COMMON_ARGUMENTS: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-queue-type",
    "x-delivery-limit",
    WINDOW_ARGUMENT,
    COPY_FROM,
    COPY_ROUTING_KEY,
)
# in the order in which RabbitMQ compares them
CLASSIC_ARGUMENTS: Final = (
    "x-queue-type",
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-master-locator",
    "x-delivery-limit",
    "x-ha-mode",
    "x-ha-params",
    WINDOW_ARGUMENT,
    COPY_FROM,
    COPY_ROUTING_KEY,
)
QUORUM_ARGUMENTS: Final = (
    *COMMON_ARGUMENTS,
    "x-dead-letter-strategy",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-queue-leader-locator",
)

QUEUE_MODES: Final = ("default", "lazy")
OVERFLOWS: Final = (DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX)
MASTER_LOCATORS: Final = ("min-masters", "client-local", "random")
MIRRORING_MODES: Final = ("all", "exactly", "nodes")
LEADER_LOCATORS: Final = ("client-local", "balanced", "least-leaders", "random")
DEAD_LETTER_STRATEGIES: Final = ("at-most-once", "at-least-once")


def validate_arguments(queue_name: str, vhost: str, arguments: Table) -> None:
    """Raise a `ChannelFault` for the first invalid argument."""
    if not arguments:
        return
    where = f"queue '{queue_name}' in vhost '{vhost}'"
    exchange = arguments.get("x-dead-letter-exchange", "")
    if not isinstance(exchange, str):
        text = f"invalid type '{type_name(exchange)}' for arg 'x-dead-letter-exchange' in {where}"
        raise ChannelFault(PRECONDITION_FAILED, text)
    _check("x-queue-type", _queue_type_refusal, arguments, where)
    queue_type = type_of(arguments)
    known = known_arguments(queue_type)
    for name, refusal in CHECKS:
        if name not in arguments:
            continue
        if name not in known:
            raise ChannelFault(
                PRECONDITION_FAILED, f"invalid arg '{name}' for {where} of queue type rabbit_{queue_type}_queue"
            )
        _check(name, refusal, arguments, where)
    copied_itself = own_copy_refusal(queue_name, arguments)
    if copied_itself:
        raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{COPY_FROM}' for {where}: {copied_itself}")


def validate_declaration(
    queue_name: str, vhost: str, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table
) -> None:
    """`validate_arguments`, and check that the queue type allows the queue's flags."""
    validate_arguments(queue_name, vhost, arguments)
    if type_of(arguments) != "classic":
        misfit = ""
        if auto_delete:
            misfit = "auto-delete"
        elif exclusive:
            misfit = "exclusive-owner"
        elif not durable:
            misfit = "non-durable"
        if misfit:
            text = f"invalid property '{misfit}' for queue '{queue_name}' in vhost '{vhost}'"
            raise ChannelFault(PRECONDITION_FAILED, text)
        check_segment_size(arguments)


def known_arguments(queue_type: str) -> tuple[str, ...]:
    """The arguments of this queue type, in the order of comparison."""
    if queue_type == STREAM:
        return STREAM_ARGUMENTS
    return QUORUM_ARGUMENTS if queue_type == "quorum" else CLASSIC_ARGUMENTS


def type_of(arguments: Table) -> str:
    """The queue type in the arguments; classic by default."""
    asked = arguments.get("x-queue-type")
    return asked if isinstance(asked, str) else "classic"


# -- checks of values: each returns the reason of a refusal as an Erlang term, or an empty string


def _check(name: str, refusal: Callable[[object, Table], str], arguments: Table, where: str) -> None:
    if name in arguments:
        reason = refusal(arguments[name], arguments)
        if reason:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{name}' for {where}: {reason}")


def _integer_refusal(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return ""
    return f'"expected integer, got {type_name(value)}"'


def _count_refusal(value: object, arguments: Table) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{{value_negative,{value}}}" if value < 0 else ""
    return _integer_refusal(value)


def _size_refusal(value: object, arguments: Table) -> str:
    return _count_refusal(value, arguments) or ("{value_zero,0}" if value == 0 else "")


def _ttl_refusal(value: object, arguments: Table) -> str:
    refusal = _count_refusal(value, arguments)
    if not refusal and isinstance(value, int) and value > TEN_YEARS_MS:
        return f"{{value_too_large,{value}}}"
    return refusal


def _expires_refusal(value: object, arguments: Table) -> str:
    return _ttl_refusal(value, arguments) or _size_refusal(value, arguments)


def _max_priority_refusal(value: object, arguments: Table) -> str:
    refusal = _count_refusal(value, arguments)
    if not refusal and isinstance(value, int) and value > PRIORITY_MAX:
        return f"{{max_value_exceeded,{value}}}"
    return refusal


def _text_refusal(value: object, known: tuple[str, ...], unknown: str) -> str:
    if not isinstance(value, str):
        return f"{{unacceptable_type,{type_name(value)}}}"
    return "" if value in known else unknown


def _dead_letter_exchange_refusal(value: object, arguments: Table) -> str:
    # the type of the value was checked first
    return ""


def _dead_letter_routing_key_refusal(value: object, arguments: Table) -> str:
    if not isinstance(value, str):
        return f"{{unacceptable_type,{type_name(value)}}}"
    if "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    # a routing key is a short string
    return "" if len(value.encode("utf-8", "surrogateescape")) <= 255 else "longer_than_255_octets"


def _dead_letter_strategy_refusal(value: object, arguments: Table) -> str:
    return _text_refusal(value, DEAD_LETTER_STRATEGIES, "invalid_dlx_strategy")


def _overflow_refusal(value: object, arguments: Table) -> str:
    return _text_refusal(value, OVERFLOWS, "invalid_overflow")


def _queue_mode_refusal(value: object, arguments: Table) -> str:
    return _text_refusal(value, QUEUE_MODES, f"\"unsupported queue mode '{value}'\"")


def _queue_type_refusal(value: object, arguments: Table) -> str:
    return _text_refusal(value, ("classic", "quorum", STREAM), f"\"unsupported queue type '{value}'\"")


def _queue_version_refusal(value: object, arguments: Table) -> str:
    return _count_refusal(value, arguments) or ("" if value in (1, 2) else f"\"unsupported queue version '{value}'\"")


def _master_locator_refusal(value: object, arguments: Table) -> str:
    return _text_refusal(value, MASTER_LOCATORS, f"\"unsupported queue master locator '{value}'\"")


def _ha_mode_refusal(value: object, arguments: Table) -> str:
    refusal = _text_refusal(value, MIRRORING_MODES, f'"{value} is not a valid ha-mode value"')
    if refusal or value == "all" or "x-ha-params" in arguments:
        return refusal
    wanted = "an integer" if value == "exactly" else "a list"
    return f'"ha-mode {value} takes {wanted}, none given"'


def _ha_params_refusal(value: object, arguments: Table) -> str:
    mode = arguments.get("x-ha-mode")
    if mode is None:
        return '"ha-mode must be specified to specify ha-params"'
    if mode == "exactly":
        return _size_refusal(value, arguments)
    if mode == "nodes":
        return _names_refusal(value)
    return '"ha-mode all does not take parameters"'


def _names_refusal(value: object) -> str:
    if not isinstance(value, list):
        return f'"expected list, got {type_name(value)}"'
    if not value:
        return '"ha-mode nodes list must be non-empty"'
    others = [name for name in value if not isinstance(name, str)]
    return f'"ha-mode nodes takes a list of strings, got {type_name(others[0])}"' if others else ""


def _leader_locator_refusal(value: object, arguments: Table) -> str:
    return _text_refusal(value, LEADER_LOCATORS, "invalid_queue_locator_arg")


def _flag_refusal(value: object, arguments: Table) -> str:
    return "" if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


CHECKS: Final[tuple[tuple[str, Callable[[object, Table], str]], ...]] = (
    ("x-expires", _expires_refusal),
    ("x-message-ttl", _ttl_refusal),
    ("x-dead-letter-exchange", _dead_letter_exchange_refusal),
    ("x-dead-letter-routing-key", _dead_letter_routing_key_refusal),
    ("x-dead-letter-strategy", _dead_letter_strategy_refusal),
    ("x-max-length", _count_refusal),
    ("x-max-length-bytes", _count_refusal),
    ("x-max-in-memory-length", _count_refusal),
    ("x-max-in-memory-bytes", _count_refusal),
    ("x-max-priority", _max_priority_refusal),
    ("x-overflow", _overflow_refusal),
    ("x-queue-mode", _queue_mode_refusal),
    ("x-queue-version", _queue_version_refusal),
    ("x-single-active-consumer", _flag_refusal),
    ("x-quorum-initial-group-size", _size_refusal),
    (MAX_AGE, max_age_refusal),
    (SEGMENT_SIZE, _count_refusal),
    (PARTITIONS, partitions_refusal),
    # set by the broker only: refused from clients
    (PARTITION_OF, partitions_refusal),
    (WINDOW_ARGUMENT, _count_refusal),
    ("x-initial-cluster-size", _size_refusal),
    ("x-queue-leader-locator", _leader_locator_refusal),
    ("x-queue-master-locator", _master_locator_refusal),
    ("x-delivery-limit", _count_refusal),
    ("x-ha-mode", _ha_mode_refusal),
    ("x-ha-params", _ha_params_refusal),
    (COPY_FROM, copy_from_refusal),
    (COPY_ROUTING_KEY, copy_routing_key_refusal),
)
"""In RabbitMQ's order. An argument that the queue type does not know is refused before its value is checked."""


MIRRORED: Final = "mirrored"
HA_MODE: Final = "x-ha-mode"
ALIASES: Final = ((MIRRORED, HA_MODE), ("copy_from", COPY_FROM), ("routing_key", COPY_ROUTING_KEY))


def without_aliases(queue_name: str, vhost: str, arguments: Table) -> Table:
    """The arguments without aliases; a `ChannelFault` if an alias and its `x-` argument differ."""
    given = [(alias, name) for alias, name in ALIASES if alias in arguments]
    if not given:
        return arguments
    where = f"queue '{queue_name}' in vhost '{vhost}'"
    renamed = dict(arguments)
    for alias, name in given:
        value = renamed.pop(alias)
        if alias == MIRRORED:
            value = _mode(value, where)
        if name in arguments and arguments[name] != value:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{alias}' for {where}: \"{name} says otherwise\"")
        if value is not None:
            renamed[name] = value
    return renamed


def _mode(value: object, where: str) -> str | None:
    """The `ha-mode` of `mirrored`: true is `all`, false is no mirrors."""
    if isinstance(value, bool):
        return "all" if value else None
    if isinstance(value, str):
        return value
    raise ChannelFault(
        PRECONDITION_FAILED, f"invalid arg '{MIRRORED}' for {where}: {{unacceptable_type,{type_name(value)}}}"
    )


COMPARED_FIRST: Final = "x-queue-type"


def check_equivalent(queue: QueuePort, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table) -> None:
    """Raise RabbitMQ's `ChannelFault` for the first difference."""
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if exclusive != queue.exclusive:
        raise locked_fault(queue)
    compare_flag("durable", durable, queue.durable, where)
    compare_flag("auto_delete", auto_delete, queue.auto_delete, where)
    if not arguments and not queue.arguments:
        return
    if arguments.get(COMPARED_FIRST, "classic") != queue.arguments.get(COMPARED_FIRST, "classic"):
        compare_argument(COMPARED_FIRST, arguments, queue.arguments, where)
    for name in known_arguments(type_of(queue.arguments)):
        if name != COMPARED_FIRST:
            compare_argument(name, arguments, queue.arguments, where)


def locked_fault(queue: QueuePort) -> ChannelFault:
    """The fault for access to another connection's exclusive queue, or for a different `exclusive` flag."""
    return ChannelFault(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{queue.vhost}'. It could be "
        "originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration.",
    )
