"""Types of columns that mean the same in SQLite and in PostgreSQL.

SQLite knows neither times nor decimal numbers; both are text there, written so that the order of the text is the order
of the times, and no cent is lost.

Not here: the time itself (`tables.clock`).
"""

from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import BigInteger, DateTime, Integer, Numeric, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

# SQLite counts up only what is called INTEGER
Counted = BigInteger().with_variant(Integer, "sqlite")


class UtcTime(TypeDecorator[datetime]):
    """A moment: given with a zone, kept as UTC, returned as UTC."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[datetime]:
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} says no zone; give a time with one, such as datetime.now(UTC)")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Money(TypeDecorator[Decimal]):
    """A decimal number with four places behind the point."""

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
