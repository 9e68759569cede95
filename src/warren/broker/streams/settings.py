"""The settings of a stream: retention, segment size and deduplication window.

Not here: which arguments are valid (`broker.queues.arguments`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.deduplication import WINDOW_LIMIT, window_limit
from warren.broker.streams.archive_index import SEGMENT_BYTES
from warren.broker.streams.offsets import seconds_in
from warren.wire.field_tables import Table

UNLIMITED: Final[i64] = -1

COUNT_MAX: Final = 2**62
"""Larger numbers in a policy count as this."""


@final
class StreamSettings:
    """The settings in force; -1 means no limit."""

    def __init__(
        self,
        bytes_max: i64 = UNLIMITED,
        age_max_ms: i64 = UNLIMITED,
        segment_bytes: i64 = SEGMENT_BYTES,
        dedup_window: i64 = WINDOW_LIMIT,
    ) -> None:
        self.bytes_max: i64 = bytes_max
        self.age_max_ms: i64 = age_max_ms
        self.segment_bytes: i64 = segment_bytes
        # how many publishing ids of each publisher are kept
        self.dedup_window: i64 = dedup_window


def stream_settings_of(arguments: Table, definition: Table | None = None) -> StreamSettings:
    """The settings of valid arguments and a valid policy definition. Where both have a number, the lower one counts."""
    policy: Table = {} if definition is None else definition
    size = _lower(policy.get("max-length-bytes"), arguments.get("x-max-length-bytes"))
    age_ms = _lower(_milliseconds(policy.get("max-age")), _milliseconds(arguments.get("x-max-age")))
    segment_key = "stream-max-segment-size-bytes"
    segment = _lower(policy.get(segment_key), arguments.get(f"x-{segment_key}"))
    return StreamSettings(
        size,
        age_ms,
        segment if segment > 0 else SEGMENT_BYTES,
        window_limit(arguments, policy),
    )


def _lower(one: object, other: object) -> int:
    """The lower of the given numbers, -1 if none is given."""
    given = [value for value in (one, other) if isinstance(value, int)]
    return min(*given, COUNT_MAX) if given else int(UNLIMITED)


def _milliseconds(age: object) -> int | None:
    """The milliseconds of an age. An age of 0, or one that is too long, means no limit."""
    seconds = seconds_in(age) if isinstance(age, str) else 0
    return seconds * 1000 if seconds else None
