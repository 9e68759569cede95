"""Tables that are created, upgraded or left alone; leases and the clock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from sqlalchemy import Connection, Engine, create_engine, inspect, select, text, update
from sqlalchemy.orm import Session

from warren.client.errors import TablesRefused
from warren.client.tables import (
    INBOX,
    LEASES,
    OUTBOX,
    VERSIONS,
    check_tables,
    create_tables,
    database_time,
    insert_unless_there,
    release_lease,
    renew_lease,
    take_lease,
)
from warren.client.tables.schema import TABLE_GROUPS, TableGroup, inbox_to_2, inbox_to_3, migrate_tables

Schema = dict[str, list[str]]


def schema_of(engine: Engine) -> Schema:
    """The tables and their columns."""
    found = inspect(engine)
    return {name: [column["name"] for column in found.get_columns(name)] for name in sorted(found.get_table_names())}


def versions_of(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {row.part: row.version for row in connection.execute(select(VERSIONS))}


def test_tables_are_made_once_and_then_left_alone(database: Engine) -> None:
    made = schema_of(database)
    create_tables(database)
    assert schema_of(database) == made
    assert versions_of(database) == {"outbox": 2, "inbox": 3, "leases": 1}


def test_processes_that_start_together_make_the_tables_together(empty_database: Engine) -> None:
    with ThreadPoolExecutor(4) as threads:
        for made in [threads.submit(create_tables, empty_database) for _ in range(4)]:
            made.result()
    assert versions_of(empty_database) == {"outbox": 2, "inbox": 3, "leases": 1}


def test_a_table_that_was_dropped_is_made_again(database: Engine) -> None:
    INBOX.drop(database)
    create_tables(database)
    assert inspect(database).has_table(INBOX.name)


@pytest.mark.parametrize("name", ["warren_outbox", "warren_inbox", "warren_leases", "warren_tables"])
def test_a_table_of_another_program_is_refused_and_nothing_is_changed(empty_database: Engine, name: str) -> None:
    with empty_database.begin() as connection:
        connection.execute(text(f"CREATE TABLE {name} (dish TEXT)"))
    before = schema_of(empty_database)
    with pytest.raises(TablesRefused, match=f"the database has a table {name} that is not ours; rename it"):
        create_tables(empty_database)
    assert schema_of(empty_database) == before


def test_tables_of_a_later_version_are_refused_and_nothing_is_changed(database: Engine) -> None:
    with database.begin() as connection:
        connection.execute(update(VERSIONS).where(VERSIONS.c.part == "inbox").values(version=7))
        connection.execute(text("DROP TABLE warren_outbox"))
    with pytest.raises(TablesRefused, match="the inbox tables are of version 7 and this program knows up to 3; update"):
        create_tables(database)
    assert not inspect(database).has_table("warren_outbox")


def add_note(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE warren_inbox ADD COLUMN note TEXT"))


def name_note(connection: Connection) -> None:
    connection.execute(text("UPDATE warren_inbox SET note = 'of ' || consumer"))


def fail(connection: Connection) -> None:
    connection.execute(text("SELECT * FROM nowhere"))


def with_one_row(engine: Engine) -> None:
    with engine.begin() as connection:
        insert_unless_there(connection, INBOX, consumer="till", business_id="a", received_at=database_time())


def test_tables_of_an_older_version_are_brought_up_step_by_step(database: Engine) -> None:
    with_one_row(database)
    migrate_tables(database, [TableGroup("inbox", (INBOX,), (inbox_to_2, inbox_to_3, add_note, name_note))])
    assert versions_of(database)["inbox"] == 5
    with database.connect() as connection:
        assert connection.execute(text("SELECT note FROM warren_inbox")).scalar_one() == "of till"


def test_a_step_that_fails_leaves_everything_as_it_was(database: Engine) -> None:
    with_one_row(database)
    before = schema_of(database)
    with pytest.raises(Exception, match="nowhere"):
        migrate_tables(database, [TableGroup("inbox", (INBOX,), (inbox_to_2, inbox_to_3, add_note, fail))])
    assert schema_of(database) == before
    assert versions_of(database)["inbox"] == 3


def test_missing_or_older_tables_are_reported_before_they_are_used(empty_database: Engine) -> None:
    with (
        empty_database.connect() as connection,
        pytest.raises(TablesRefused, match="the outbox tables are missing or of an"),
    ):
        check_tables(connection)
    create_tables(empty_database)
    with empty_database.begin() as connection:
        check_tables(connection)
        connection.execute(text("DROP TABLE warren_leases"))
        with pytest.raises(
            TablesRefused, match=r"the leases tables are missing .* call .*create_tables\(engine\) once"
        ):
            check_tables(connection)


def test_every_table_belongs_to_a_part() -> None:
    listed = [table.name for part in TABLE_GROUPS for table in part.tables] + [VERSIONS.name]
    assert sorted(listed) == sorted(OUTBOX.metadata.tables)


def test_an_engine_has_no_transaction_and_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a Connection or a Session, not Engine"):
        insert_unless_there(create_engine("sqlite://"), INBOX)  # type: ignore[arg-type]


def test_a_row_is_written_once(database: Engine) -> None:
    row = {"consumer": "till", "business_id": "a"}
    with Session(database) as session, session.begin():
        assert insert_unless_there(session, INBOX, **row, received_at=database_time())
        assert not insert_unless_there(session, INBOX, **row, received_at=database_time())


def test_times_and_amounts_come_back_as_they_were(database: Engine) -> None:
    noon = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))
    with database.begin() as connection:
        insert_unless_there(
            connection, INBOX, consumer="till", business_id="a", received_at=noon, amount=Decimal("12345678901234.1")
        )
        row = connection.execute(select(INBOX)).one()
    assert (row.received_at, row.received_at.utcoffset()) == (noon, timedelta(0))
    assert row.amount == Decimal("12345678901234.1000")


def test_a_time_without_zone_and_an_amount_with_fractions_of_a_cent_are_mistakes(database: Engine) -> None:
    with database.begin() as connection:
        row = {"consumer": "till", "business_id": "a"}
        with pytest.raises(Exception, match="has no zone"):
            insert_unless_there(connection, INBOX, **row, received_at=datetime(2026, 1, 1))
        with pytest.raises(Exception, match="more than four places"):
            insert_unless_there(connection, INBOX, **row, received_at=database_time(), amount=Decimal("0.00001"))


def test_the_clock_is_the_databases_and_can_be_compared_with_what_was_written(database: Engine) -> None:
    with database.begin() as connection:
        now, before, later = connection.execute(select(database_time(), database_time(-1.5), database_time(60))).one()
        assert abs(now - datetime.now(UTC)) < timedelta(seconds=10)
        assert (now - before, later - now) == (timedelta(seconds=1.5), timedelta(seconds=60))
        insert_unless_there(connection, INBOX, consumer="till", business_id="a", received_at=later)
        found = [
            connection.execute(select(INBOX.c.consumer).where(INBOX.c.received_at <= database_time(plus_s))).all()
            for plus_s in (50.0, 70.0)
        ]
    assert found == [[], [("till",)]]


def expire(engine: Engine, plus_s: float) -> None:
    with engine.begin() as connection:
        connection.execute(update(LEASES).values(expires_at=database_time(plus_s)))


def test_one_among_many_has_a_lease_until_it_lets_go(database: Engine) -> None:
    with database.begin() as connection:
        first = take_lease(connection, "relay", "one", 30)
        assert first is not None
        assert take_lease(connection, "relay", "two", 30) is None
        assert take_lease(connection, "cleaner", "two", 30) is not None
        release_lease(connection, first)
        second = take_lease(connection, "relay", "two", 30)
    assert second is not None
    assert (first.fence, second.fence) == (1, 2)


def test_an_expired_lease_is_renewed_unless_it_was_taken(database: Engine) -> None:
    with database.begin() as connection:
        first = take_lease(connection, "relay", "one", 30)
    assert first is not None
    expire(database, -1)
    with database.begin() as connection:
        assert renew_lease(connection, first, 30)
        assert take_lease(connection, "relay", "two", 30) is None
    expire(database, -1)
    with database.begin() as connection:
        second = take_lease(connection, "relay", "two", 30)
        assert second is not None
        assert not renew_lease(connection, first, 30)
        release_lease(connection, first)
        assert renew_lease(connection, second, 30)
        assert take_lease(connection, "relay", "three", 30) is None


def test_a_clock_that_was_set_back_does_not_make_a_lease_last_for_years(database: Engine) -> None:
    with database.begin() as connection:
        take_lease(connection, "relay", "one", 30)
    expire(database, 86_400 * 365)
    with database.begin() as connection:
        assert take_lease(connection, "relay", "two", 30) is not None


def test_a_lease_lasts_a_minute_at_most(database: Engine) -> None:
    with database.begin() as connection, pytest.raises(ValueError, match="a lease lasts up to 60 seconds, not 61"):
        take_lease(connection, "relay", "one", 61)
