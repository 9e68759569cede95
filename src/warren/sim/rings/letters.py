"""What goes over links in the pretend world of rings.

Not here: how it looks as bytes (`mirroring.messages`).
"""

from typing import Any, NamedTuple

JOIN = "join"
SAFE = "safe"
HAS = "has"
CAUGHT_UP = "caught up"
RESUME = "resume"
START = "start"
STEP = "step"
SETTLE = "settle"
PAST = "past"
SURPLUS = "surplus"
PAST_OVER = "past over"
ATTACH = "attach"
PUBLISH = "publish"
HELD = "held"
CONFIRMED = "confirmed"

TO_MASTER = (JOIN, SAFE, HAS, CAUGHT_UP, ATTACH, PUBLISH)
TO_SEAT = (HELD, CONFIRMED)


class Letter(NamedTuple):
    """One message: its epoch, which attempt to follow or to attach it belongs to, and what it says."""

    kind: str
    epoch: int
    attempt: int
    number: int = 0
    other: int = 0
    what: Any = None
