"""Numbers formatted for people, and sizes parsed from people.

Counts and amounts keep every digit. Sizes and times are rounded to three figures.

Not here: tables and charts (`html.page`).
"""

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Final

NOTHING: Final = "–"

_SIZES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTPE]?)(i?)B?", re.IGNORECASE)
_LETTERS: Final = "KMGTPE"


def shown(value: object) -> str:
    """Any value of a report as text; an absent one is a dash."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | Decimal):
        return f"{value:,}"
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds" if value.microsecond else "seconds")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def rounded(value: float) -> str:
    """At most three figures: 1,230, 12.3, 0.0123."""
    near = float(f"{value:.3g}")
    return f"{near:,.0f}" if abs(near) >= 1000 else f"{near:.10f}".rstrip("0").rstrip(".")


def size(value: float) -> str:
    """Bytes in units of 1024."""
    unit = 0
    while abs(value) >= 1024 and unit < len(_SIZES) - 1:
        value /= 1024
        unit += 1
    return f"{rounded(value) if unit else f'{value:.0f}'} {_SIZES[unit]}"


def duration(milliseconds: float | None) -> str:
    """A time in a suitable unit."""
    if milliseconds is None:
        return NOTHING
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if abs(milliseconds) >= length:
            return f"{rounded(milliseconds / length)} {unit}"
    return f"{rounded(milliseconds)} ms"


def many(number: int, noun: str, plural: str = "") -> str:
    """`1 day`, `2 days`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def bytes_of(text: str) -> int | None:
    """The bytes of a size such as `500 GB` or `1.5TiB`; None if it is invalid. KB is 1000, KiB is 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[3] and not found[2]):
        return None
    power = _LETTERS.index(found[2].upper()) + 1 if found[2] else 0
    return int(Decimal(found[1]) * (1024 if found[3] else 1000) ** power)
