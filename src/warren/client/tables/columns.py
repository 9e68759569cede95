"""Column types and value checks with the same meaning in SQLite and PostgreSQL.

SQLite has neither times nor decimals; both are text there, in a form that sorts like the values and loses no digit.

Values are checked before the database gets them, because SQLite accepts values that PostgreSQL refuses. Text from other
programs is changed until it fits; text of the caller is refused instead.

Not here: the database's clock (`tables.leases`).
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from sqlalchemy import BigInteger, DateTime, Integer, Numeric, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from warren.client.errors import CannotConvert

# SQLite autoincrements only a column of type INTEGER
RowId = BigInteger().with_variant(Integer, "sqlite")


class UtcTime(TypeDecorator[datetime]):
    """A time: given with a zone, stored and returned as UTC."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no zone; give a time with one, such as datetime.now(UTC)")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Money(TypeDecorator[Decimal]):
    """A decimal with four places."""

    impl = Numeric(20, 4)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Decimal] | TypeEngine[str]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(25))
        return dialect.type_descriptor(Numeric(20, 4))

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Decimal | str | None:
        if value is None:
            return None
        exact = value.quantize(PLACES)
        if exact != value:
            raise ValueError(f"{value} has more than four places behind the point")
        return str(exact) if dialect.name == "sqlite" else exact

    def process_result_value(self, value: Decimal | str | None, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


PLACES = Decimal("0.0001")


CURRENCY_CHARACTERS_MAX: Final = 3
AMOUNT_LIMIT: Final = Decimal(10**16)
AMOUNT_PLACES_MAX: Final = 4


def utf8_bytes(name: str, value: str) -> bytes:
    """The text as UTF-8; `CannotConvert` if databases cannot store it as text."""
    octets = value.encode(errors="replace")
    if b"\x00" in octets or octets.decode() != value:
        raise CannotConvert(f"the {name} {value!r} has characters that no database keeps as text")
    return octets


def check_length(name: str, value: str, most: int) -> None:
    """`ValueError` if the value is too long for its column."""
    utf8_bytes(name, value)
    if len(value) > most:
        raise ValueError(f"the {name} has {len(value)} characters, and the table keeps at most {most}")


def check_money(amount: Decimal | None, currency: str | None) -> None:
    """`ValueError` if the ledgers cannot store the amount exactly."""
    check_length("currency", currency or "", CURRENCY_CHARACTERS_MAX)
    if amount is not None and not _fits(amount):
        raise ValueError(
            f"the amount {amount} is not a number of at most 16 digits before the point and four behind it"
        )


def _fits(amount: Decimal) -> bool:
    if not amount.is_finite() or abs(amount) >= AMOUNT_LIMIT:
        return False
    return amount == round(amount, AMOUNT_PLACES_MAX)


ERROR_CHARACTERS_MAX = 2000


def storable_text(reason: str, most: int = ERROR_CHARACTERS_MAX) -> str:
    """The text without NUL, with a replacement for invalid characters, and cut to the limit."""
    return reason.replace("\x00", "").encode(errors="replace").decode()[:most]
