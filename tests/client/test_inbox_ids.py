"""Two messages with one id, from independent senders: neither is dropped as a duplicate; in both databases."""

import logging
from collections.abc import Callable
from threading import Barrier, Thread

import pytest
from sqlalchemy import Connection, Engine, select, text

from tests.client.awaited_rows import Came, relay
from tests.client.relayed_rows import rows, statuses
from warren.client.errors import CannotConvert
from warren.client.inbox import Inbox, Refused
from warren.client.inbox.rows import digest_of
from warren.client.machine.publishes import Message
from warren.client.outbox import Outbox
from warren.client.outbox.outbox import stored_properties
from warren.client.tables import INBOX
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

TAKEN = r"'7' is the id of another message, which came to 'bank' before.*send this one under an id of its own"


class Bank:
    """A consumer that records deposits and withdrawals by account."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.did: list[str] = []
        self.refuses = False
        self.inbox = Inbox(engine, "bank")
        self.handle: Callable[[Came], None] = self.inbox.handler(self.book, undo=self.strike, receipts=Outbox())

    def book(self, connection: Connection, message: Came) -> None:
        if self.refuses:
            raise Refused("not today")
        self.did.append(f"book {message.properties.reply_to}")

    def strike(self, connection: Connection, message: Came) -> None:
        self.did.append(f"strike {message.properties.reply_to}")

    def receipts(self) -> dict[str, tuple[str, object]]:
        """Of each receipt its id, the queue to which it goes, and its outcome."""
        return {
            name: (row.routing_key, (stored_properties(row.properties).headers or {})["x-outcome"])
            for name, row in rows(self.engine).items()
        }

    def outcome(self) -> str:
        with self.engine.connect() as connection:
            return str(connection.execute(select(INBOX.c.outcome)).scalar_one())


@pytest.fixture
def bank(database: Engine) -> Bank:
    return Bank(database)


def deposit(sender: str, body: bytes = b"100", **properties: str) -> Came:
    return Came(Message(body, Properties(message_id="7", reply_to=sender, **properties)))  # type: ignore[arg-type]


def settling(sender: str, kind: str) -> Came:
    headers: Table = {"x-kind": kind, "x-settles": "7"}
    return Came(Message(b"100", Properties(message_id=f"7/{kind}", reply_to=sender, headers=headers)))


def test_another_senders_message_with_the_same_id_is_parked_and_its_sender_notified(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    bank.handle(deposit("till a"))
    with pytest.raises(CannotConvert, match=TAKEN):
        bank.handle(deposit("till b"))
    assert bank.did == ["book till a"]
    assert (bank.inbox.handled, bank.inbox.duplicates) == (1, 0)
    first, second = bank.receipts()
    assert bank.receipts() == {first: ("till a", "done"), second: ("till b", "refused")}
    assert stored_properties(rows(bank.engine)[second].properties).correlation_id == "7"
    [said] = [record for record in caplog.records if record.message == "message.id_taken"]
    assert (said.levelno, vars(said)["consumer"], vars(said)["business_id"]) == (logging.WARNING, "bank", "7")


def test_both_may_come_again_and_each_gets_the_same_answer(bank: Bank) -> None:
    bank.handle(deposit("till a"))
    for _ in range(2):
        relay(bank.engine)
        with pytest.raises(CannotConvert, match=TAKEN):
            bank.handle(deposit("till b"))
        bank.handle(deposit("till a"))
        assert sorted(bank.receipts().values()) == [("till a", "done"), ("till b", "refused")]
        assert set(statuses(bank.engine).values()) == {"pending"}
    assert bank.did == ["book till a"]


@pytest.mark.parametrize("other", [{"body": b"101"}, {"app_id": "atm"}, {"type": "withdrawal"}])
def test_one_sender_that_uses_an_id_twice_is_refused(bank: Bank, other: dict[str, bytes]) -> None:
    bank.handle(deposit("till a"))
    with pytest.raises(CannotConvert, match=TAKEN):
        bank.handle(deposit("till a", **other))  # type: ignore[arg-type]
    assert sorted(bank.receipts().values()) == [("till a", "done"), ("till a", "refused")]


def test_a_reversal_or_confirmation_of_the_others_message_leaves_the_first_alone(bank: Bank) -> None:
    bank.handle(deposit("till a"))
    for kind in ("reversal", "confirmation"):
        with pytest.raises(CannotConvert, match=TAKEN):
            bank.handle(settling("till b", kind))
    assert (bank.did, bank.outcome()) == (["book till a"], "done")
    assert sorted(bank.receipts().values()) == [("till a", "done"), ("till b", "refused"), ("till b", "refused")]
    bank.handle(settling("till a", "reversal"))
    assert bank.did == ["book till a", "strike till a"]


def test_a_message_is_distinguished_from_one_that_was_refused_or_reversed_before_it_came(bank: Bank) -> None:
    bank.refuses = True
    bank.handle(deposit("till a"))
    with pytest.raises(CannotConvert, match=TAKEN):
        bank.handle(deposit("till b"))
    with bank.engine.begin() as connection:
        connection.execute(text("DELETE FROM warren_inbox"))
    bank.handle(settling("till a", "reversal"))
    with pytest.raises(CannotConvert, match=TAKEN):
        bank.handle(deposit("till b"))
    bank.handle(deposit("till a"))
    assert bank.did == []


def test_two_messages_that_come_at_once_are_distinguished(bank: Bank) -> None:
    ready = Barrier(2)
    parked: list[str] = []

    def go(sender: str) -> None:
        ready.wait()
        try:
            bank.handle(deposit(sender))
        except CannotConvert:
            parked.append(sender)

    both = [Thread(target=go, args=(sender,)) for sender in ("till a", "till b")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    [other] = parked
    [booked] = bank.did
    assert {booked, f"book {other}"} == {"book till a", "book till b"}
    assert sorted(outcome for _, outcome in bank.receipts().values()) == ["done", "refused"]  # type: ignore[type-var]


def test_rows_without_a_digest_are_taken_for_any_message_with_their_id(bank: Bank) -> None:
    bank.handle(deposit("till a"))
    with bank.engine.begin() as connection:
        connection.execute(text("UPDATE warren_inbox SET digest = NULL"))
    bank.handle(deposit("till b"))
    assert (bank.did, bank.inbox.duplicates) == (["book till a"], 1)


def test_recording_by_hand_with_the_message_finds_a_reused_id(bank: Bank) -> None:
    inbox = bank.inbox
    with bank.engine.begin() as connection:
        assert inbox.first_time(connection, "7", message=deposit("till a"))
        assert not inbox.first_time(connection, "7", message=deposit("till a"))
        assert not inbox.first_time(connection, "7")
        with pytest.raises(CannotConvert, match=TAKEN):
            inbox.first_time(connection, "7", message=deposit("till b"))
        with pytest.raises(CannotConvert, match=TAKEN):
            inbox.take_back(connection, "7", message=settling("till b", "reversal"))
        assert inbox.take_back(connection, "7", message=settling("till a", "reversal"))


def test_properties_that_differ_between_deliveries_make_no_other_message() -> None:
    told = Properties(message_id="7", reply_to="till a", app_id="till", type="deposit")
    again = Properties(
        message_id="7/confirm",
        reply_to="till a",
        app_id="till",
        type="deposit",
        user_id="guest",
        expiration="1000",
        priority=3,
        delivery_mode=2,
        headers={"x-attempt": 2, "x-retries": 1, "traceparent": "00-1", "x-death": []},
    )
    assert digest_of(b"100", told) == digest_of(b"100", again)
    made_up = [Properties(reply_to=f"amq.gen-{number}") for number in range(2)]
    assert digest_of(b"", made_up[0]) == digest_of(b"", made_up[1]) == digest_of(b"", Properties())


def test_no_two_messages_have_the_same_digest_because_their_words_meet() -> None:
    words = [("ab", "", b""), ("a", "b", b""), ("a", "", b"b"), ("", "ab", b""), ("", "", b"ab"), ("\udcff", "", b"")]
    assert len({digest_of(body, Properties(app_id=app, type=kind)) for app, kind, body in words}) == len(words)
