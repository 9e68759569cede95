"""Which message one is about: itself, or one that it confirms or reverses.

A confirmation and a reversal have headers `x-kind` and `x-settles`, the business id of the other one. Nothing else of
them differs from that one but their own business id: whatever a relay sends has `x-written-at`, the time at which the
message was written, and theirs is that of the other one.

Not here: what is done about it (`inbox.handling`).
"""

from datetime import UTC, datetime
from typing import NamedTuple

from warren.client.inbox.recording import business_id_of, checked_id
from warren.client.outbox.kinds import CONFIRMATION, KIND_HEADER, REVERSAL, SETTLES_HEADER, WRITTEN_HEADER
from warren.wire.properties import Properties
from warren.wire.values import Timestamp


class Subject(NamedTuple):
    """The business id that is handled once, whether that is to be undone, and when it was written, if that is told."""

    business_id: str
    is_reversal: bool = False
    written_at: datetime | None = None


def subject_of(properties: Properties) -> Subject:
    """A `CannotConvert` if it has no id, or stands for one that makes none."""
    own = business_id_of(properties)
    headers = properties.headers
    if not headers:
        return Subject(own)
    written_at = _time(headers.get(WRITTEN_HEADER))
    kind = headers.get(KIND_HEADER)
    if SETTLES_HEADER not in headers or kind not in (CONFIRMATION, REVERSAL):
        return Subject(own, False, written_at)
    settles = headers[SETTLES_HEADER]
    business_id = checked_id(settles if isinstance(settles, str) else "", SETTLES_HEADER)
    return Subject(business_id, kind == REVERSAL, written_at)


def _time(said: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(said.seconds, UTC) if isinstance(said, Timestamp) else None
    except (ValueError, OverflowError, OSError):
        return None
