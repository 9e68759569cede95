"""Rows of the outbox as `add` writes them."""

from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from warren.client import Message, Properties
from warren.client.errors import CannotConvert
from warren.client.outbox import Outbox
from warren.client.tables import OUTBOX, database_time


def rows(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(OUTBOX).order_by(OUTBOX.c.id)))


def test_a_row_is_there_if_its_transaction_commits(database: Engine) -> None:
    with database.begin() as transaction:
        Outbox().add(transaction, b"one", business_id="a")
    with Session(database) as session, session.begin():
        Outbox().add(session, b"two", business_id="b")
    with database.connect() as transaction:
        Outbox().add(transaction, b"three", business_id="c")
        transaction.rollback()
    assert [(row.business_id, row.body) for row in rows(database)] == [("a", b"one"), ("b", b"two")]


def test_a_row_has_all_that_a_message_needs(database: Engine) -> None:
    outbox = Outbox(exchange="bank", routing_key="deposits")
    message = Message(b"100", Properties(message_id="a", headers={"branch": 4}))
    with database.begin() as transaction:
        given = outbox.add(
            transaction, message, ordering_key="account 1", wants_receipt=True, amount=Decimal("1.5"), currency="EUR"
        )
    [row] = rows(database)
    assert given == "a"
    assert (row.business_id, row.kind, row.status, row.attempt) == ("a", "message", "pending", 0)
    assert (row.exchange, row.routing_key, row.ordering_key) == ("bank", "deposits", "account 1")
    assert row.properties == '{"headers":{"branch":4},"delivery_mode":2}'
    assert (row.wants_receipt, row.amount, row.currency) == (True, Decimal("1.5"), "EUR")
    assert row.created_at is not None
    assert message.properties is not None
    assert message.properties.delivery_mode is None


def test_the_call_goes_before_the_message_and_the_message_before_the_outbox(database: Engine) -> None:
    outbox = Outbox(exchange="bank", routing_key="deposits")
    with database.begin() as transaction:
        outbox.add(transaction, Message(b"", routing_key="own"))
        outbox.add(transaction, Message(b"", routing_key="own"), routing_key="said", exchange="")
        outbox.add(transaction, Message(b"", Properties(message_id="own")), business_id="said")
    found = [(row.exchange, row.routing_key) for row in rows(database)]
    assert found == [("bank", "own"), ("", "said"), ("bank", "deposits")]
    assert rows(database)[2].business_id == "said"


def test_without_an_id_each_is_a_message_of_its_own(database: Engine) -> None:
    with database.begin() as transaction:
        given = [Outbox().add(transaction, b"same") for _ in range(2)]
    assert [row.business_id for row in rows(database)] == given
    assert given[0] != given[1]


def test_the_same_message_twice_is_one(database: Engine) -> None:
    for _ in range(2):
        with database.begin() as transaction:
            Outbox().add(transaction, b"one", business_id="a", amount=Decimal("2.50"))
    assert len(rows(database)) == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [({"amount": Decimal(3)}, "amount"), ({"routing_key": "x", "currency": "EUR"}, "routing_key, cu")],
)
def test_two_messages_with_one_id_are_a_mistake(database: Engine, change: dict[str, Any], named: str) -> None:
    with database.begin() as transaction:
        Outbox().add(transaction, b"one", business_id="a")
        with pytest.raises(ValueError, match=f"another message with business id 'a', with another {named}"):
            Outbox().add(transaction, b"one", business_id="a", **change)
    assert len(rows(database)) == 1


def test_a_row_is_sent_again_on_demand(database: Engine) -> None:
    with database.begin() as transaction:
        Outbox().add(transaction, b"one", business_id="a")
        transaction.execute(update(OUTBOX).values(status="failed", attempt=3, due_at=database_time(60)))
        assert Outbox().resend(transaction, "a")
        assert not Outbox().resend(transaction, "b")
    [row] = rows(database)
    assert (row.status, row.attempt, row.due_at) == ("pending", 3, None)


def test_a_connection_that_commits_each_statement_is_refused(database: Engine) -> None:
    at_once = database.execution_options(isolation_level="AUTOCOMMIT")
    with at_once.begin() as connection, pytest.raises(ValueError, match="transactions are needed, no AUTOCOMMIT"):
        Outbox().add(connection, b"one")
    assert rows(database) == []


def test_the_session_of_a_web_framework_will_do(database: Engine) -> None:
    session = scoped_session(sessionmaker(database))
    Outbox().add(session, b"one", business_id="a")
    session.commit()
    session.remove()
    assert [row.business_id for row in rows(database)] == ["a"]


@pytest.mark.parametrize(
    ("column", "wrong"), [("ordering_key", "a\0b"), ("ordering_key", "a\udcffb"), ("kind", "a\0b"), ("currency", "a\0")]
)
def test_text_that_no_database_keeps_is_refused_at_once(database: Engine, column: str, wrong: str) -> None:
    options: dict[str, Any] = {column: wrong}
    with database.begin() as transaction, pytest.raises(CannotConvert, match=rf"the {column} .* no database keeps"):
        Outbox().add(transaction, b"", **options)


def test_a_message_that_no_broker_could_accept_is_refused_at_once(database: Engine) -> None:
    with database.begin() as transaction:
        with pytest.raises(CannotConvert, match="the routing_key has 256 bytes, and 255 are the most"):
            Outbox().add(transaction, b"", routing_key="ö" * 128)
        with pytest.raises(CannotConvert, match="properties cannot be sent"):
            Outbox().add(transaction, Message(b"", Properties(headers={"a": object()})))
        assert transaction.execute(select(func.count()).select_from(OUTBOX)).scalar_one() == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "k" * 21}, "the kind has 21 characters, and the table keeps at most 20"),
        ({"currency": "EURO"}, "the currency has 4 characters, and the table keeps at most 3"),
        ({"amount": Decimal(10**16)}, "the amount 10000000000000000 .* at most 16 digits before the point"),
        ({"amount": Decimal("1e40")}, "at most 16 digits before the point"),
        ({"amount": Decimal("0.00001")}, "four behind it"),
        ({"amount": Decimal("NaN")}, "the amount NaN"),
        ({"amount": Decimal("-Infinity")}, "the amount -Infinity"),
    ],
)
def test_a_value_too_long_for_its_column_is_refused_in_every_database(
    database: Engine, wrong: dict[str, Any], said: str
) -> None:
    with database.begin() as transaction:
        with pytest.raises(ValueError, match=said):
            Outbox().add(transaction, b"", **wrong)
        Outbox().add(transaction, b"", business_id="a")
    assert [row.business_id for row in rows(database)] == ["a"]


def test_a_value_that_just_fits_its_column_is_kept(database: Engine) -> None:
    largest = Decimal("-9999999999999999.9999")
    with database.begin() as transaction:
        Outbox().add(transaction, b"", kind="k" * 20, currency="\N{EURO SIGN}" * 3, amount=largest)
    [row] = rows(database)
    assert (len(row.kind), len(row.currency), row.amount) == (20, 3, largest)
