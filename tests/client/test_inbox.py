"""The inbox in its databases: the first delivery, concurrent deliveries, and pruning."""

import functools
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.client.databases import opened, postgres_url, sqlite_url
from tests.support.deadlines import eventually
from tests.support.postgres import Postgres
from tests.unit.client.listening.messages import HandMade
from warren.client import CannotConvert, Properties, TablesRefused
from warren.client.inbox import Inbox
from warren.client.inbox.inbox import prune_step
from warren.client.tables import INBOX, create_tables, database_time
from warren.client.transport import Incoming

DEADLINE_S = 20.0


@pytest.fixture
def engine(database: Engine) -> Engine:
    return database


@pytest.fixture
def inbox(engine: Engine) -> Inbox:
    return Inbox(engine, "payments")


def rows(engine: Engine, consumer: str = "payments") -> list[str]:
    query = select(INBOX.c.business_id).where(INBOX.c.consumer == consumer).order_by(INBOX.c.business_id)
    with engine.connect() as connection:
        return list(connection.execute(query).scalars())


def test_an_id_is_new_once_for_each_consumer(engine: Engine, inbox: Inbox) -> None:
    with engine.begin() as connection:
        assert inbox.first_time(connection, "order-1")
        assert not inbox.first_time(connection, "order-1")
        assert inbox.first_time(connection, "order-2")
    with engine.begin() as connection:
        assert not inbox.first_time(connection, "order-1")
        assert Inbox(engine, "audit").first_time(connection, "order-1")
    assert rows(engine) == ["order-1", "order-2"]


def test_a_rolled_back_record_was_never_there(engine: Engine, inbox: Inbox) -> None:
    with engine.connect() as connection:
        assert inbox.first_time(connection, "order-1")
        connection.rollback()
        assert inbox.first_time(connection, "order-1")
        connection.commit()
    assert rows(engine) == ["order-1"]


def test_a_session_records_in_its_own_transaction(engine: Engine, inbox: Inbox) -> None:
    with Session(engine) as session:
        assert inbox.first_time(session, "order-1")
        session.rollback()
    with Session(engine) as session, session.begin():
        assert inbox.first_time(session, "order-1")
    shared = scoped_session(sessionmaker(engine))
    assert not inbox.first_time(shared, "order-1")
    shared.remove()


def test_an_object_that_is_no_connection_is_refused_with_a_sentence(engine: Engine, inbox: Inbox) -> None:
    with pytest.raises(TypeError, match="expected a Connection or a Session, not Engine; with an AsyncSession"):
        inbox.first_time(engine, "order-1")  # type: ignore[arg-type]


def test_a_connection_that_commits_each_statement_is_refused(engine: Engine) -> None:
    at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
    with at_once.begin() as connection, pytest.raises(ValueError, match="transactions are needed, no AUTOCOMMIT"):
        Inbox(at_once, "payments").first_time(connection, "order-1")
    assert rows(engine) == []


def test_a_handler_that_returns_a_coroutine_or_generator_is_refused(inbox: Inbox) -> None:
    async def pay(connection: Connection, message: Incoming) -> None:
        pass

    class Pay:
        async def __call__(self, connection: Connection, message: Incoming) -> None:
            pass

    for work, name in ((pay, "pay"), (functools.partial(pay), "partial"), (Pay(), "Pay")):
        with pytest.raises(ValueError, match=f"a plain function, which runs in a thread; {name} is a coroutine"):
            inbox.handler(work)  # type: ignore[arg-type]


async def pay_later(connection: Connection, message: Incoming) -> None:
    pytest.fail("it must not be awaited")


def pay_in_steps(connection: Connection, message: Incoming) -> Iterator[None]:
    yield pytest.fail("it must not be iterated")


async def pay_in_later_steps(connection: Connection, message: Incoming) -> AsyncIterator[None]:
    yield pytest.fail("it must not be iterated")


@pytest.mark.parametrize("work", [pay_later, pay_in_steps, pay_in_later_steps])
@pytest.mark.filterwarnings("error")
def test_work_that_comes_back_undone_is_not_recorded(
    engine: Engine, inbox: Inbox, work: Callable[[Connection, Incoming], None]
) -> None:
    message = HandMade(properties=Properties(message_id="order-1"))
    with pytest.raises(TypeError, match="came back undone"):
        inbox.handler(lambda connection, message: work(connection, message))(message)
    gc.collect()
    assert (rows(engine), inbox.handled, inbox.duplicates) == ([], 0, 0)
    done: list[Incoming] = []
    inbox.handler(lambda connection, message: done.append(message))(message)
    assert (done, rows(engine), inbox.handled) == ([message], ["order-1"], 1)


def test_a_program_may_begin_the_transactions_of_sqlite_itself(tmp_path: Path) -> None:
    with opened(sqlite_url(tmp_path)) as engine:
        create_tables(engine)
        event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        engine.dispose()
        inbox = Inbox(engine, "payments")
        with engine.connect() as connection, connection.begin() as transaction:
            assert inbox.first_time(connection, "order-1")
            transaction.rollback()
        with engine.begin() as connection:
            assert inbox.first_time(connection, "order-1")
        assert rows(engine) == ["order-1"]


def test_errors_of_the_driver_are_raised_as_sqlalchemy_raises_them(engine: Engine, inbox: Inbox) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE warren_inbox ADD COLUMN more INTEGER DEFAULT 1 CHECK (more > 1)"))
    with engine.begin() as connection, pytest.raises(IntegrityError, match=r"INSERT INTO warren_inbox"):
        inbox.first_time(connection, "order-1")


def test_a_connection_that_was_cut_is_not_used_again(postgres_server: Postgres) -> None:
    with opened(postgres_url(postgres_server)) as engine:
        create_tables(engine)
        inbox = Inbox(engine, "payments")
        with engine.connect() as connection:
            number = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with engine.begin() as other:
                other.execute(text(f"SELECT pg_terminate_backend({number}, 5000)"))
            with pytest.raises(DBAPIError) as cut:
                inbox.first_time(connection, "order-1")
            assert cut.value.connection_invalidated
        with engine.begin() as connection:
            assert inbox.first_time(connection, "order-1")


def test_a_row_says_what_the_message_was_about_and_when_it_came(engine: Engine, inbox: Inbox) -> None:
    with engine.begin() as connection:
        inbox.first_time(connection, "order-1", amount=Decimal("10.10"), currency="EUR", attempt=3)
        row = connection.execute(select(INBOX, database_time().label("now"))).one()
    assert (row.amount, row.currency, row.attempt) == (Decimal("10.1000"), "EUR", 3)
    assert timedelta(0) <= row.now - row.received_at < timedelta(seconds=10)


@pytest.mark.parametrize(
    ("amount", "currency", "said"),
    [
        ("1E+18", "EUR", "at most 16 digits before the point"),
        ("1E+40", "EUR", "at most 16 digits before the point"),
        ("0.00001", "EUR", "four behind it"),
        ("NaN", "EUR", "the amount NaN is not a number"),
        ("-Infinity", "EUR", "the amount -Infinity is not a number"),
        ("1", "EURO", "the currency has 4 characters, and the table keeps at most 3"),
        ("1", "E\0R", "no database keeps"),
    ],
)
def test_amounts_that_no_ledger_could_hold_are_refused_in_every_database(
    engine: Engine, inbox: Inbox, amount: str, currency: str, said: str
) -> None:
    def pay(connection: Connection, message: Incoming) -> None:
        pytest.fail("it could not be reconciled")

    handle = inbox.handler(pay, money=lambda message: (Decimal(amount), currency))
    with pytest.raises(CannotConvert, match=said):
        handle(HandMade(properties=Properties(message_id="order-1")))
    with engine.begin() as connection, pytest.raises(CannotConvert, match=said):
        inbox.first_time(connection, "order-1", amount=Decimal(amount), currency=currency)
    assert (rows(engine), inbox.handled) == ([], 0)


def test_the_largest_amount_of_an_outbox_is_kept_by_an_inbox(engine: Engine, inbox: Inbox) -> None:
    largest = Decimal("-9999999999999999.9999")
    with engine.begin() as connection:
        assert inbox.first_time(connection, "order-1", amount=largest, currency="EUR")
        assert connection.execute(select(INBOX.c.amount)).scalar_one() == largest


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\0b", "\udcff"])
def test_an_id_that_cannot_be_kept_is_refused(engine: Engine, inbox: Inbox, bad: str) -> None:
    with engine.begin() as connection, pytest.raises(CannotConvert, match="message_id"):
        inbox.first_time(connection, bad)
    assert rows(engine) == []


def test_an_id_may_have_255_characters_of_any_kind(engine: Engine, inbox: Inbox) -> None:
    with engine.begin() as connection:
        assert inbox.first_time(connection, "ü" * 255)
        assert not inbox.first_time(connection, "ü" * 255)


class Duplicates:
    """Two transactions that record the same id; the second has begun to, and waits for the first."""

    def __init__(self, engine: Engine, inbox: Inbox, pool: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._inbox = inbox
        self._asking = threading.Event()
        self.first = engine.connect()
        assert inbox.first_time(self.first, "order-1")
        self.second: Future[bool] = pool.submit(self._second)
        assert self._asking.wait(DEADLINE_S)
        if engine.dialect.name == "postgresql":
            eventually(self._is_waiting)
        assert not self.second.done()

    def _second(self) -> bool:
        with self._engine.begin() as connection:
            self._asking.set()
            return self._inbox.first_time(connection, "order-1")

    def _is_waiting(self) -> bool:
        with self._engine.connect() as connection:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            return connection.execute(text(waiting)).scalar_one() == 1


@pytest.mark.parametrize("first_commits", [True, False])
def test_the_second_of_two_at_a_time_waits_and_takes_over_only_if_the_first_fails(
    engine: Engine, inbox: Inbox, first_commits: bool
) -> None:
    with ThreadPoolExecutor(1) as pool:
        both = Duplicates(engine, inbox, pool)
        with both.first as first:
            if first_commits:
                first.commit()
            else:
                first.rollback()
        assert both.second.result(DEADLINE_S) is not first_commits
    assert rows(engine) == ["order-1"]


def test_of_many_that_come_at_once_each_id_is_new_for_one(engine: Engine, inbox: Inbox) -> None:
    def take(number: int) -> bool:
        with engine.begin() as connection:
            return inbox.first_time(connection, f"order-{number % 20}")

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take, range(200))) == 20
    assert len(rows(engine)) == 20


def test_old_rows_go_in_steps_and_others_stay(engine: Engine, inbox: Inbox) -> None:
    other = Inbox(engine, "audit")
    with engine.begin() as connection:
        for number in range(25):
            inbox.first_time(connection, f"old-{number}")
            other.first_time(connection, f"old-{number}")
        connection.execute(update(INBOX).values(received_at=database_time(-7 * 86_400 - 60)))
        inbox.first_time(connection, "young")
        inbox.first_time(connection, "week")
        week = update(INBOX).where(INBOX.c.business_id == "week").values(received_at=database_time(-7 * 86_400 + 60))
        connection.execute(week)
    assert prune_step(engine, "payments", 7 * 86_400, rows=10) == 10
    assert inbox.prune(step_rows=10) == 15
    assert rows(engine) == ["week", "young"]
    assert len(rows(engine, "audit")) == 25
    assert inbox.prune() == 0


def test_pruning_does_not_wait_for_recording(engine: Engine, inbox: Inbox) -> None:
    with engine.begin() as connection:
        inbox.first_time(connection, "old")
        connection.execute(update(INBOX).values(received_at=database_time(-30 * 86_400)))
    if engine.dialect.name == "sqlite":
        # SQLite has one writer at a time
        assert inbox.prune() == 1
        return
    with engine.begin() as recording, ThreadPoolExecutor(1) as pool:
        assert inbox.first_time(recording, "order-1")
        assert pool.submit(inbox.prune).result(DEADLINE_S) == 1


def test_a_pruned_id_is_new_again(engine: Engine) -> None:
    brief = Inbox(engine, "payments", keep=timedelta(milliseconds=1))
    with engine.begin() as connection:
        assert brief.first_time(connection, "order-1")
    eventually(lambda: brief.prune() == 1)
    with engine.begin() as connection:
        assert brief.first_time(connection, "order-1")


@pytest.mark.parametrize("consumer", ["", "x" * 256, "\0"])
def test_a_consumer_has_a_name_that_can_be_kept(engine: Engine, consumer: str) -> None:
    with pytest.raises(ValueError, match="a consumer is named in 1 to 255 characters"):
        Inbox(engine, consumer)


def test_rows_are_kept_for_some_time(engine: Engine) -> None:
    with pytest.raises(ValueError, match="rows are kept for some time"):
        Inbox(engine, "payments", keep=timedelta(0))


def test_another_kind_of_database_is_refused_with_a_sentence() -> None:
    class Elsewhere:
        name = "oracle"

    engine = create_engine("sqlite://")
    engine.dialect = Elsewhere()  # type: ignore[assignment]
    with pytest.raises(TablesRefused, match="an inbox is kept in SQLite or PostgreSQL, not in oracle"):
        Inbox(engine, "payments")
