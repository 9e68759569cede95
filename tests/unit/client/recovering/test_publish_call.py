"""A call's messages between waiting, written and decided, however often a channel ends in between."""

import asyncio
import random
from typing import Any

import pytest

from warren.client.errors import CallTimeout, ClientError, ConnectionLost
from warren.client.machine.publishes import ConfirmRange, Message
from warren.client.recovering.publish_call import CallSlice, PublishCall
from warren.client.transport import Outgoing


def outgoing(*exchanges: str, key: str = "k") -> list[Outgoing]:
    return [Outgoing(Message(b"%d" % place), exchange, key) for place, exchange in enumerate(exchanges)]


async def made(messages: list[Outgoing]) -> PublishCall:
    return PublishCall(messages)


def call_of(*exchanges: str) -> PublishCall:
    return asyncio.run(made(outgoing(*exchanges)))


def write(call: PublishCall, sent: int | None = None, first_no: int = 1, most: int = 1000) -> CallSlice:
    """The next part, as much of it as is said."""
    part = call.next_part(most)
    call.begin(part)
    part.bulk.begin(first_no)
    part.bulk.sent = len(part.places) if sent is None else sent
    if part.bulk.sent < len(part.places):
        part.bulk.cut()
    call.stopped(part)
    return part


def lost(was_written: bool) -> ClientError:
    return ConnectionLost("written") if was_written else CallTimeout("not written")


def test_parts_end_where_the_exchange_changes_and_keep_the_order() -> None:
    call = call_of("a", "a", "b", "a")
    parts = [write(call), write(call), write(call)]
    assert [(part.exchange, list(part.places)) for part in parts] == [("a", [0, 1]), ("b", [2]), ("a", [3])]
    assert not call.waits


def test_messages_with_keys_of_their_own_stay_in_one_part() -> None:
    messages = [
        Outgoing(Message(b"0"), "x", "common"),
        Outgoing(Message(b"1"), "x", "other"),
        Outgoing(Message(b"2", routing_key="own"), "x", "other"),
    ]
    part = write(asyncio.run(made(messages)))
    keys = [each.routing_key for each in part.bulk.messages if isinstance(each, Message)]
    assert (part.routing_key, keys) == ("common", [None, "other", "own"])
    assert part.bulk.messages[0] is messages[0].message


def test_unconfirmed_messages_are_pending_again_and_confirmed_ones_are_not() -> None:
    call = call_of("a", "a", "a", "b", "b")
    first, second = write(call), write(call, sent=1, first_no=4)
    first.bulk.decide(ConfirmRange(2, 2, False), {})
    suspects = call.take_back()
    assert [(suspect.place, suspect.before) for suspect in suspects] == [(0, False), (2, False), (3, False)]
    assert call.left == 4
    again = write(call)
    assert list(again.places) == [0, 2]
    # later confirms of an ended channel are ignored
    call.decided(second)
    assert call.left == 4


def test_a_message_sent_again_is_counted_as_resent() -> None:
    call = call_of("a", "a", "a")
    write(call, sent=1)
    call.take_back()
    write(call)
    assert [suspect.before for suspect in call.take_back()] == [True, False, False]


def test_giving_up_reports_which_messages_were_written() -> None:
    call = call_of("a", "a", "a", "b")
    part = write(call, sent=2)
    part.bulk.decide(ConfirmRange(1, 1, True), {})
    call.give_up(lost)
    assert [type(each) for each in call.outcomes] == [type(None), ConnectionLost, CallTimeout, CallTimeout]
    assert call.ended.done()
    assert not part.bulk.wanted
    assert not call.waits


def test_an_unwritten_message_never_succeeds_however_the_writing_ended() -> None:
    """All that was sent of a slice is confirmed, and the end of the writing is not reported."""
    call = call_of("a", "a", "a")
    part = call.next_part(1000)
    call.begin(part)
    part.bulk.begin(1)
    part.bulk.sent = 1
    part.bulk.decide(ConfirmRange(1, 1, True), {})
    part.bulk.cut()
    part.bulk.end(None)
    assert [type(each) for each in call.outcomes] == [type(None), CallTimeout, CallTimeout]
    call.give_up(lost)
    assert [str(each) for each in call.outcomes] == ["None", "not written", "not written"]


def test_a_part_ends_before_an_item_that_is_no_message() -> None:
    text: Any = "text"
    messages = [Outgoing(Message(b"0"), "a"), Outgoing(text, "a", "k"), text]
    call = asyncio.run(made(messages))
    assert list(write(call).places) == [0]
    for _ in range(2):
        with pytest.raises((TypeError, AttributeError)):
            call.next_part(1000)
        call.fail_next(CallTimeout("no form"))
    assert not call.waits


def test_a_call_ends_when_the_last_message_is_decided() -> None:
    call = call_of("a", "a", "a")
    part = write(call, sent=1)
    call.fail_next(CallTimeout("no form"))
    rest = write(call, first_no=2)
    for each, numbers in ((rest, (2, 2)), (part, (1, 1))):
        assert not call.ended.done()
        each.bulk.decide(ConfirmRange(*numbers, True), {})
        each.bulk.end(None)
    assert call.ended.done()
    assert [type(each) for each in call.outcomes] == [type(None), CallTimeout, type(None)]


def test_every_message_is_decided_exactly_once() -> None:
    for seed in range(300):
        dice = random.Random(seed)
        call = call_of(*(dice.choice("aab") for _ in range(dice.randint(1, 20))))
        parts: list[tuple[CallSlice, int]] = []
        number = 1
        while not call.ended.done():
            if call.waits and dice.random() < 0.7:
                part = call.next_part(dice.randint(1, 20))
                parts.append((write_some(call, part, dice, number), number))
                number += part.bulk.sent
            elif parts and dice.random() < 0.5:
                part, first = parts.pop(dice.randrange(len(parts)))
                if part.bulk.sent:
                    part.bulk.decide(ConfirmRange(first, first + part.bulk.sent - 1, dice.random() < 0.8), {})
                part.bulk.end(None)
            elif dice.random() < 0.3:
                call.take_back()
                parts.clear()
        assert call.left == 0
        assert not call.waits


def write_some(call: PublishCall, part: CallSlice, dice: random.Random, first_no: int) -> CallSlice:
    call.begin(part)
    part.bulk.begin(first_no)
    part.bulk.sent = dice.randint(0, len(part.places))
    if part.bulk.sent < len(part.places):
        part.bulk.cut()
    call.stopped(part)
    return part
