"""Which message one is about: itself, or one that it confirms or reverses.

A confirmation and a reversal have headers `x-kind` and `x-settles`, the business id of the other one. Nothing else of
them differs from that one but their own business id.

Not here: what is done about it (`inbox.handling`).
"""

from typing import NamedTuple

from warren.client.inbox.recording import business_id_of, checked_id
from warren.client.outbox.kinds import CONFIRMATION, KIND_HEADER, REVERSAL, SETTLES_HEADER
from warren.wire.properties import Properties


class Subject(NamedTuple):
    """The business id that is handled once, and whether that is to be undone."""

    business_id: str
    is_reversal: bool = False


def subject_of(properties: Properties) -> Subject:
    """A `CannotConvert` if it has no id, or stands for one that makes none."""
    own = business_id_of(properties)
    headers = properties.headers
    if not headers or SETTLES_HEADER not in headers:
        return Subject(own)
    kind, settles = headers.get(KIND_HEADER), headers[SETTLES_HEADER]
    if kind not in (CONFIRMATION, REVERSAL):
        return Subject(own)
    return Subject(checked_id(settles if isinstance(settles, str) else "", SETTLES_HEADER), kind == REVERSAL)
