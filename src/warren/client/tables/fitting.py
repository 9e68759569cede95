"""Values that fit the columns of either database, told before it is asked: SQLite takes what PostgreSQL refuses.

Not here: text of others, which is made to fit (`tables.texts`).
"""

from decimal import Decimal
from typing import Final

from warren.client.errors import CannotConvert

CURRENCY_CHARACTERS_MAX: Final = 3
AMOUNT_LIMIT: Final = Decimal(10**16)
AMOUNT_PLACES_MAX: Final = 4


def octets_of(name: str, value: str) -> bytes:
    """It as UTF-8; a `CannotConvert` if no database keeps it as text."""
    octets = value.encode(errors="replace")
    if b"\x00" in octets or octets.decode() != value:
        raise CannotConvert(f"the {name} {value!r} has characters that no database keeps as text")
    return octets


def check_length(name: str, value: str, most: int) -> None:
    """A `ValueError` if its column has no room for it."""
    octets_of(name, value)
    if len(value) > most:
        raise ValueError(f"the {name} has {len(value)} characters, and the table keeps at most {most}")


def check_money(amount: Decimal | None, currency: str | None) -> None:
    """A `ValueError` if the ledgers cannot tell them to the cent."""
    check_length("currency", currency or "", CURRENCY_CHARACTERS_MAX)
    if amount is not None and not _fits(amount):
        raise ValueError(
            f"the amount {amount} is not a number of at most 16 digits before the point and four behind it"
        )


def _fits(amount: Decimal) -> bool:
    if not amount.is_finite() or abs(amount) >= AMOUNT_LIMIT:
        return False
    return amount == round(amount, AMOUNT_PLACES_MAX)
