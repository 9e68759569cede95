"""Text of others, made such that every database keeps it.

Not here: text of the caller's own, which is refused instead (`outbox.adding`, `inbox.recording`).
"""

ERROR_CHARACTERS_MAX = 2000


def storable(reason: str, most: int = ERROR_CHARACTERS_MAX) -> str:
    """The same without NUL, with a mark in the place of what is no character, and no longer than that."""
    return reason.replace("\x00", "").encode(errors="replace").decode()[:most]
