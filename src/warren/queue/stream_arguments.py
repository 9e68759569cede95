"""Which arguments a stream knows, and whether what they say can be accepted.

Where this differs from RabbitMQ 3.10: an age that is no number is refused as one without a unit is, rather than ending
the connection with an internal error; `x-stream-partitions` and `x-warren-dedup-window` are Warren's own.

Not here: arguments of other queues (`queue.arguments`), what these mean (`stream.settings`).
"""

from typing import Final

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.partitions import PARTITIONS
from warren.model.terms import type_name
from warren.model.window import WINDOW_ARGUMENT
from warren.wire.values import Table

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
    """RabbitMQ has words of its own for segments that are too large."""
    size = arguments.get(SEGMENT_SIZE)
    if isinstance(size, int) and size > SEGMENT_BYTES_MAX:
        raise ChannelFault(PRECONDITION_FAILED, f"Exceeded max value for {SEGMENT_SIZE}")
