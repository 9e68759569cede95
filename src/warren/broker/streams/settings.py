"""What a stream was told about itself: how much it keeps, and in how large pieces.

Not here: whether arguments are acceptable (`broker.queues.arguments`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.deduplication import WINDOW_LIMIT, window_limit
from warren.broker.streams.archive_index import SEGMENT_BYTES
from warren.broker.streams.offsets import seconds_in
from warren.wire.field_tables import Table

UNLIMITED: Final[i64] = -1

COUNT_MAX: Final = 2**62
"""Any larger number in a policy is taken to be this."""


@final
class StreamSettings:
    """-1 means no limit."""

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
        # how many publishing ids of each publisher are remembered
        self.dedup_window: i64 = dedup_window


def stream_settings_of(arguments: Table, definition: Table | None = None) -> StreamSettings:
    """What arguments, and a policy's definition if there is one, ask for; both must have been found acceptable.

    Where both speak the lower number counts.
    """
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
    """The lower of the numbers that are given, -1 if none is."""
    given = [value for value in (one, other) if isinstance(value, int)]
    return min(*given, COUNT_MAX) if given else int(UNLIMITED)


def _milliseconds(age: object) -> int | None:
    """How long an age is. Whoever writes one of no length, or beyond counting, wants to keep everything."""
    seconds = seconds_in(age) if isinstance(age, str) else 0
    return seconds * 1000 if seconds else None
