"""The receiver's side of receipts, in both databases: acknowledged, refused, confirmed and taken back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Barrier, Thread

import pytest
from sqlalchemy import Connection, Engine, select, text

from tests.client.awaited_rows import Came, relay
from tests.client.relayed_rows import rows, statuses
from tests.unit.client.outbox.scripted import ScriptedTransport
from warren.client.errors import CannotConvert
from warren.client.inbox import Inbox, Refused
from warren.client.machine.publishes import Message
from warren.client.outbox import Outbox
from warren.client.outbox.outbox import stored_properties
from warren.client.receipts import compensating_id
from warren.client.tables import INBOX
from warren.wire.field_tables import Table, Timestamp
from warren.wire.properties import Properties

RECEIPT = "order-1/receipt/kitchen"


@dataclass
class Kitchen:
    """A consumer that inserts a row for each dish, and removes it to undo."""

    engine: Engine
    refuses: str = ""
    fails: bool = False
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE dishes (name varchar(20))"))
        self.inbox = Inbox(self.engine, "kitchen")
        self.handle: Callable[[Came], None] = self.inbox.handler(self.cook, undo=self.throw_away, receipts=Outbox())

    def cook(self, connection: Connection, message: Came) -> None:
        self._do(connection, "cook", "INSERT INTO dishes VALUES (:name)", message)

    def throw_away(self, connection: Connection, message: Came) -> None:
        self._do(connection, "throw away", "DELETE FROM dishes WHERE name = :name", message)

    def _do(self, connection: Connection, what: str, statement: str, message: Came) -> None:
        self.calls.append(what)
        connection.execute(text(statement), {"name": message.body.decode()})
        if self.refuses:
            raise Refused(self.refuses)
        if self.fails:
            raise RuntimeError("the stove is cold")

    @property
    def dishes(self) -> list[str]:
        with self.engine.connect() as connection:
            return list(connection.execute(text("SELECT name FROM dishes ORDER BY name")).scalars())

    @property
    def outcomes(self) -> dict[str, str]:
        with self.engine.connect() as connection:
            return {row.business_id: row.outcome for row in connection.execute(select(INBOX))}


@pytest.fixture
def kitchen(database: Engine) -> Kitchen:
    return Kitchen(database)


def order(business_id: str = "order-1", reply_to: str | None = "receipts") -> Came:
    return Came(Message(b"soup", Properties(message_id=business_id, reply_to=reply_to)))


def settling(kind: str, business_id: str = "order-1") -> Came:
    own_id = compensating_id(business_id, "reverse" if kind == "reversal" else "confirm")
    headers: Table = {"x-kind": kind, "x-settles": business_id}
    return Came(Message(b"soup", Properties(message_id=own_id, reply_to="receipts", headers=headers)))


def receipt_headers(engine: Engine, business_id: str = RECEIPT) -> dict[str, object]:
    row = rows(engine)[business_id]
    properties = stored_properties(row.properties)
    assert (row.kind, row.exchange, row.routing_key) == ("receipt", "", "receipts")
    assert properties.type == "warren.receipt"
    return dict(properties.headers or {})


def test_a_receipt_is_written_in_the_transaction_of_the_work(kitchen: Kitchen) -> None:
    kitchen.fails = True
    with pytest.raises(RuntimeError):
        kitchen.handle(order())
    assert rows(kitchen.engine) == {}
    kitchen.fails = False
    kitchen.handle(order())
    assert receipt_headers(kitchen.engine) == {"x-receipt-for": "order-1", "x-outcome": "done"}
    assert stored_properties(rows(kitchen.engine)[RECEIPT].properties).correlation_id == "order-1"


def test_a_duplicate_has_its_receipt_sent_again(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    assert relay(kitchen.engine).calls
    kitchen.handle(order())
    assert kitchen.calls == ["cook"]
    assert statuses(kitchen.engine) == {RECEIPT: "pending"}
    [[again]] = relay(kitchen.engine).calls
    assert again.message.properties is not None
    headers = again.message.properties.headers or {}
    assert isinstance(headers.pop("x-written-at"), Timestamp)
    assert (again.message.properties.message_id, headers) == (
        RECEIPT,
        {"x-receipt-for": "order-1", "x-outcome": "done", "x-attempt": 2},
    )


def test_a_duplicate_whose_receipt_was_cleaned_away_has_another(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    with kitchen.engine.begin() as connection:
        connection.execute(text("DELETE FROM warren_outbox"))
    kitchen.handle(order())
    assert receipt_headers(kitchen.engine)["x-outcome"] == "done"


def test_a_message_that_is_handled_anew_has_its_receipt_sent_anew(kitchen: Kitchen) -> None:
    kitchen.refuses = "no soup today"
    kitchen.handle(order())
    relay(kitchen.engine)
    with kitchen.engine.begin() as connection:
        connection.execute(text("DELETE FROM warren_inbox"))
    kitchen.refuses = ""
    kitchen.handle(order())
    assert statuses(kitchen.engine) == {RECEIPT: "pending"}
    assert receipt_headers(kitchen.engine)["x-outcome"] == "done"


def test_a_sender_without_reply_to_gets_no_receipt_unless_there_is_a_fixed_address(kitchen: Kitchen) -> None:
    kitchen.handle(order(reply_to=None))
    assert rows(kitchen.engine) == {}
    fixed = Inbox(kitchen.engine, "bar").handler(kitchen.cook, receipts=Outbox(exchange="shop", routing_key="done"))
    fixed(order(reply_to=None))
    fixed(order("order-2"))
    found = rows(kitchen.engine)
    assert [(row.exchange, row.routing_key) for row in found.values()] == [("shop", "done"), ("", "receipts")]


def test_consumers_of_one_database_have_receipts_of_their_own(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    Inbox(kitchen.engine, "bar").handler(kitchen.cook, receipts=Outbox())(order())
    assert sorted(rows(kitchen.engine)) == ["order-1/receipt/bar", RECEIPT]


def test_refused_work_is_rolled_back_and_the_sender_gets_the_reason(kitchen: Kitchen) -> None:
    kitchen.refuses = "no soup today"
    kitchen.handle(order())
    assert (kitchen.dishes, kitchen.outcomes) == ([], {"order-1": "refused"})
    assert receipt_headers(kitchen.engine) == {
        "x-receipt-for": "order-1",
        "x-outcome": "refused",
        "x-reason": "no soup today",
    }


def test_a_refused_message_stays_refused_and_the_same_receipt_is_sent_again(kitchen: Kitchen) -> None:
    kitchen.refuses = "no soup today"
    kitchen.handle(order())
    relay(kitchen.engine)
    kitchen.refuses = ""
    kitchen.handle(order())
    assert (kitchen.dishes, kitchen.calls) == ([], ["cook"])
    assert statuses(kitchen.engine) == {RECEIPT: "pending"}
    assert receipt_headers(kitchen.engine)["x-reason"] == "no soup today"
    with kitchen.engine.begin() as connection:
        connection.execute(text("DELETE FROM warren_outbox"))
    kitchen.handle(order())
    assert receipt_headers(kitchen.engine)["x-reason"] == "it was refused before"


def test_a_confirmation_is_handled_in_the_place_of_its_message(kitchen: Kitchen) -> None:
    kitchen.handle(settling("confirmation"))
    assert (kitchen.dishes, kitchen.outcomes) == (["soup"], {"order-1": "done"})
    assert receipt_headers(kitchen.engine, "order-1/confirm/receipt/kitchen")["x-receipt-for"] == "order-1/confirm"
    kitchen.handle(order())
    assert kitchen.calls == ["cook"]
    assert receipt_headers(kitchen.engine)["x-outcome"] == "done"


def test_a_confirmation_of_what_was_handled_is_a_duplicate_with_a_receipt(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    kitchen.handle(settling("confirmation"))
    assert (kitchen.calls, kitchen.inbox.duplicates) == (["cook"], 1)
    assert receipt_headers(kitchen.engine, "order-1/confirm/receipt/kitchen")["x-outcome"] == "done"


def test_a_confirmation_of_what_was_refused_is_refused(kitchen: Kitchen) -> None:
    kitchen.refuses = "no soup today"
    kitchen.handle(order())
    kitchen.refuses = ""
    kitchen.handle(settling("confirmation"))
    assert kitchen.dishes == []
    assert receipt_headers(kitchen.engine, "order-1/confirm/receipt/kitchen")["x-outcome"] == "refused"


def test_a_reversal_undoes_once_what_was_done(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    for _ in range(2):
        kitchen.handle(settling("reversal"))
    assert (kitchen.calls, kitchen.dishes) == (["cook", "throw away"], [])
    assert kitchen.outcomes == {"order-1": "taken_back"}
    assert receipt_headers(kitchen.engine, "order-1/reverse/receipt/kitchen")["x-outcome"] == "done"


def test_a_message_that_comes_after_its_reversal_is_not_handled(kitchen: Kitchen) -> None:
    kitchen.handle(settling("reversal"))
    kitchen.handle(order())
    assert (kitchen.calls, kitchen.dishes) == ([], [])
    assert receipt_headers(kitchen.engine)["x-reason"] == "its sender has taken it back"
    assert receipt_headers(kitchen.engine, "order-1/reverse/receipt/kitchen")["x-outcome"] == "done"


def test_a_duplicate_of_a_reversed_message_is_answered_as_reversed_and_not_as_done(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    relay(kitchen.engine)
    assert receipt_headers(kitchen.engine)["x-outcome"] == "done"
    kitchen.handle(settling("reversal"))
    for _ in range(2):
        kitchen.handle(order())
        assert statuses(kitchen.engine)[RECEIPT] == "pending"
        assert receipt_headers(kitchen.engine) == {
            "x-receipt-for": "order-1",
            "x-outcome": "refused",
            "x-reason": "its sender has taken it back",
        }
        relay(kitchen.engine)
    assert (kitchen.calls, kitchen.dishes) == (["cook", "throw away"], [])


def test_a_duplicate_that_asks_for_its_receipt_elsewhere_has_it_there(kitchen: Kitchen) -> None:
    # after each connection the broker makes up another name
    for reply_to in ("amq.gen-1", "amq.gen-2"):
        kitchen.handle(order(reply_to=reply_to))
        assert rows(kitchen.engine)[RECEIPT].routing_key == reply_to
    assert kitchen.calls == ["cook"]


def test_a_reversal_of_what_was_refused_has_nothing_to_undo(kitchen: Kitchen) -> None:
    kitchen.refuses = "no soup today"
    kitchen.handle(order())
    kitchen.handle(settling("reversal"))
    assert kitchen.calls == ["cook"]
    assert receipt_headers(kitchen.engine, "order-1/reverse/receipt/kitchen")["x-outcome"] == "done"


def test_a_reversal_that_is_refused_leaves_everything_as_it_was(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    kitchen.refuses = "it was eaten"
    kitchen.handle(settling("reversal"))
    assert (kitchen.dishes, kitchen.outcomes) == (["soup"], {"order-1": "done"})
    assert receipt_headers(kitchen.engine, "order-1/reverse/receipt/kitchen")["x-reason"] == "it was eaten"


def test_a_reversal_whose_undoing_fails_is_not_acknowledged(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    kitchen.fails = True
    with pytest.raises(RuntimeError):
        kitchen.handle(settling("reversal"))
    assert (kitchen.dishes, kitchen.outcomes) == (["soup"], {"order-1": "done"})
    assert list(rows(kitchen.engine)) == [RECEIPT]


def test_a_reversal_for_a_handler_that_cannot_undo_is_parked(kitchen: Kitchen) -> None:
    handle: Callable[[Came], None] = Inbox(kitchen.engine, "bar").handler(kitchen.cook)
    with pytest.raises(CannotConvert, match="it reverses 'order-1', and this handler was given no way to undo"):
        handle(settling("reversal"))
    assert kitchen.dishes == []


@pytest.mark.parametrize("settles", [None, 7, "", "a" * 256])
def test_a_reversal_of_what_makes_no_id_is_parked(kitchen: Kitchen, settles: object) -> None:
    headers = {"x-kind": "reversal", "x-settles": settles}
    with pytest.raises(CannotConvert, match="x-settles"):
        kitchen.handle(Came(Message(b"soup", Properties(message_id="a", headers=headers))))


def test_headers_with_another_meaning_are_left_alone(kitchen: Kitchen) -> None:
    meanings: list[Table] = [{"x-kind": "reversal"}, {"x-settles": "a"}, {"x-kind": 1, "x-settles": "a"}]
    for number, headers in enumerate(meanings):
        kitchen.handle(Came(Message(b"soup", Properties(message_id=f"order-{number}", headers=headers))))
    assert kitchen.calls == ["cook"] * 3


def test_taking_back_in_ones_own_transaction(kitchen: Kitchen) -> None:
    kitchen.handle(order())
    inbox = kitchen.inbox
    with kitchen.engine.begin() as connection:
        assert inbox.take_back(connection, "order-1")
        assert not inbox.take_back(connection, "order-1")
        assert not inbox.take_back(connection, "order-2")
        assert not inbox.first_time(connection, "order-2")
        connection.rollback()
    with kitchen.engine.begin() as connection:
        assert inbox.take_back(connection, "order-1")
        assert inbox.first_time(connection, "order-2")
        assert not Inbox(kitchen.engine, "bar").take_back(connection, "order-1")


def test_a_message_and_its_reversal_that_come_at_once_leave_nothing_done(kitchen: Kitchen) -> None:
    for number in range(20):
        ready = Barrier(2)

        def go(message: Came, ready: Barrier = ready) -> None:
            ready.wait()
            kitchen.handle(message)

        name = f"order-{number}"
        both = [Thread(target=go, args=(each,)) for each in (order(name), settling("reversal", name))]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert kitchen.outcomes[name] == "taken_back"
    assert kitchen.dishes == []
    assert kitchen.calls.count("cook") == kitchen.calls.count("throw away")


def test_rows_of_what_was_taken_back_go_when_they_are_old(kitchen: Kitchen) -> None:
    kitchen.handle(settling("reversal"))
    with kitchen.engine.begin() as connection:
        connection.execute(text("UPDATE warren_inbox SET received_at = '2020-01-01 00:00:00.000000'"))
    assert Inbox(kitchen.engine, "kitchen", keep=timedelta(days=1)).prune() == 1


def test_long_ids_have_receipts_too(kitchen: Kitchen) -> None:
    kitchen.handle(order("x" * 255))
    [receipt] = rows(kitchen.engine)
    assert len(receipt) <= 255
    transport: ScriptedTransport = relay(kitchen.engine)
    [[sent]] = transport.calls
    assert sent.message.properties is not None
    assert sent.message.properties.correlation_id == "x" * 255
