"""Open rows of an outbox: counted, listed by urgency, and found by indexes alone."""

from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, insert, select, text, update

from tests.support.ports import free_port
from warren.client import Message
from warren.client.errors import CannotConnect, TablesRefused
from warren.client.ledgers import open_items, standing
from warren.client.outbox import Outbox
from warren.client.tables import OUTBOX, VERSIONS, database_time, take_lease

MANY = 20_000


def add(connection: Connection, business_id: str, status: str, **columns: object) -> None:
    values = {"business_id": business_id, "status": status, "created_at": database_time(-60)} | columns
    connection.execute(insert(OUTBOX).values(body=b"", routing_key="deposits", **values))


@pytest.fixture
def outbox(database: Engine) -> Engine:
    """With rows of every status."""
    with database.begin() as connection:
        add(connection, "through", "sent")
        add(connection, "received", "done", wants_receipt=True)
        add(connection, "taken back", "reversed", wants_receipt=True)
        add(connection, "fresh", "pending", created_at=database_time(-5))
        add(connection, "refused by the broker", "pending", due_at=database_time(30), attempt=2, last_error="NO_ROUTE")
        add(connection, "awaited", "sent", wants_receipt=True, due_at=database_time(60), attempt=1)
        add(connection, "late", "sent", wants_receipt=True, due_at=database_time(-1), attempt=1, resends=1)
        add(connection, "lost", "failed", last_error="nobody answered", amount=Decimal("12.50"), currency="EUR")
        add(connection, "withdrawal", "reversing", wants_receipt=True)
        add(connection, "deposit", "confirming", wants_receipt=True)
        add(connection, "bad", "refused", wants_receipt=True)
        reversal = {"kind": "reversal", "settles": "withdrawal", "wants_receipt": True, "due_at": database_time(90)}
        add(connection, "withdrawal/reverse", "sent", **reversal)
    return database


def test_open_rows_are_listed_in_the_order_of_their_urgency(outbox: Engine) -> None:
    assert [(item.status, item.business_id) for item in open_items(outbox)] == [
        ("failed", "lost"),
        ("refused", "bad"),
        ("reversing", "withdrawal"),
        ("confirming", "deposit"),
        ("sent", "late"),
        ("sent", "awaited"),
        ("sent", "withdrawal/reverse"),
        ("pending", "fresh"),
        ("pending", "refused by the broker"),
    ]


def test_an_item_says_what_its_row_says_and_how_old_it_is(outbox: Engine) -> None:
    items = {item.business_id: item for item in open_items(outbox)}
    lost, late, reversal = items["lost"], items["late"], items["withdrawal/reverse"]
    assert (lost.amount, lost.currency, lost.last_error) == (Decimal("12.50"), "EUR", "nobody answered")
    assert lost.age_s is not None
    assert 60 <= lost.age_s < 120
    assert (late.is_overdue, late.resends, items["awaited"].is_overdue) == (True, 1, False)
    assert (reversal.kind, reversal.settles) == ("reversal", "withdrawal")
    pending = items["refused by the broker"]
    assert (pending.is_overdue, pending.attempt, pending.last_error) == (False, 2, "NO_ROUTE")


def test_all_are_counted_and_so_many_of_each_status_are_listed(outbox: Engine) -> None:
    found = standing(outbox, limit=1)
    counts = {count.status: (count.rows, count.overdue) for count in found.counts}
    one = (1, 0)
    unsettled = {"failed": one, "refused": one, "reversing": one, "confirming": one}
    assert counts == {**unsettled, "sent": (3, 1), "pending": (2, 0)}
    assert found.rows == 9
    assert [item.business_id for item in found.items_of("sent")] == ["late"]
    assert [item.business_id for item in found.items_of("pending")] == ["fresh"]
    assert [count.first_age_s is None for count in found.counts] == [False] * 6


def test_an_outbox_that_is_through_with_everything_has_nothing_open(database: Engine) -> None:
    found = standing(database)
    assert (found.rows, found.items, found.is_relayed) == (0, (), False)


def test_a_row_that_was_written_by_hand_has_no_age(database: Engine) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO warren_outbox (business_id, body) VALUES ('by hand', '')"))
    [item] = open_items(database)
    assert (item.business_id, item.age_s, item.created_at) == ("by hand", None, None)


def test_the_ledger_shows_whether_a_relay_is_active(database: Engine) -> None:
    with database.begin() as connection:
        take_lease(connection, "outbox", "somebody", 30.0)
    found = standing(database)
    assert found.is_relayed
    assert found.relay_until is not None
    assert found.relay_until - found.at <= timedelta(seconds=30)


def test_counts_and_rows_are_of_one_moment(database: Engine) -> None:
    """Rows added during the report are in no part of it."""
    outbox = Outbox(routing_key="deposits")
    with database.begin() as connection:
        outbox.add(connection, Message(b""), business_id="first")
    if database.dialect.name == "sqlite":
        with database.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    other = create_engine(database.url)
    added = []

    @event.listens_for(database, "after_cursor_execute")
    def add_meanwhile(*arguments: object) -> None:
        # as soon as the outbox was read
        if "count(*)" in str(arguments[2]) and not added:
            added.append("second")
            with other.begin() as connection:
                outbox.add(connection, Message(b""), business_id="second")

    found = standing(database)
    other.dispose()
    assert added == ["second"]
    assert (found.rows, [item.business_id for item in found.items]) == (1, ["first"])
    assert standing(database).rows == 2


def test_rows_that_are_through_with_are_not_read(outbox: Engine) -> None:
    """By the plans of the statements: none of them reads the table from end to end."""
    with outbox.begin() as connection:
        while (there := connection.execute(select(text("count(*)")).select_from(OUTBOX)).scalar_one()) < MANY:
            connection.execute(
                text(
                    "INSERT INTO warren_outbox (business_id, body, status)"
                    f" SELECT 'old-' || (id + {there}) || '-{there}', '', 'done' FROM warren_outbox"
                )
            )
    with outbox.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE warren_outbox")
    plans = plans_of(outbox)
    assert len(plans) >= 9
    assert [plan for plan in plans if "SCAN warren_outbox\n" in plan or "Seq Scan on warren_outbox" in plan] == []
    assert all("warren_outbox_" in plan for plan in plans), plans


def plans_of(engine: Engine) -> list[str]:
    """The query plan of each statement of a report."""
    asked: list[tuple[str, object]] = []

    def note(_: object, __: object, statement: str, parameters: object, *___: object) -> None:
        if "FROM warren_outbox" in statement:
            asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    standing(engine)
    event.remove(engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    with engine.connect() as connection:
        return [
            "".join(f"{row[-1]}\n" for row in connection.exec_driver_sql(explain + statement, parameters))  # type: ignore[arg-type]
            for statement, parameters in asked
        ]


def test_looking_changes_nothing(outbox: Engine) -> None:
    def rows() -> list[object]:
        with outbox.connect() as connection:
            return [tuple(row) for row in connection.execute(select(OUTBOX).order_by(OUTBOX.c.id))]

    before = rows()
    standing(outbox)
    assert rows() == before


def test_tables_that_are_missing_or_later_are_refused_with_a_sentence(empty_database: Engine, database: Engine) -> None:
    with database.begin() as connection:
        connection.execute(update(VERSIONS).values(version=99))
    with pytest.raises(TablesRefused, match="of version 99 and this program knows up to"):
        standing(database)
    with database.begin() as connection:
        connection.exec_driver_sql("DROP TABLE warren_outbox")
        connection.exec_driver_sql("DROP TABLE warren_tables")
    with pytest.raises(TablesRefused):
        standing(database)


def test_a_missing_database_is_reported_without_its_password() -> None:
    engine = create_engine(f"postgresql+psycopg://warren:secret@127.0.0.1:{free_port()}/postgres")
    with pytest.raises(CannotConnect, match=r"warren:\*\*\*@127.0.0.1") as found:
        standing(engine)
    assert "secret" not in str(found.value)


def test_no_row_at_all_is_no_limit(database: Engine) -> None:
    with pytest.raises(ValueError, match="at least one row of each status"):
        standing(database, limit=0)
