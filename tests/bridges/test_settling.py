"""Acks to the source when a destination confirms, refuses and returns messages; events in, calls compared as lists."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.bridges.lone_host import KeptLog
from warren.bridges.settlement import PAUSE_S, BridgeStats, RecentAcks, SourceAcks, log_possible_duplicates, message_ids
from warren.bridges.transfer_options import RewrittenMessage
from warren.client import ConfirmRange, Delivery, Properties, ReturnedMessage
from warren.client.machine.publishes import ConfirmLedger
from warren.wire.properties import encode_header_payload


class ToldSource:
    """Records its calls; a refused or acked delivery may not be settled again."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.open: list[int] = []

    def delivered(self, tag: int) -> Delivery:
        self.open.append(tag)
        header = encode_header_payload(Properties(message_id=f"m{tag}"), 1)
        return Delivery(1, "c", tag, False, b"\0\0", header, b"%d" % tag)

    def ack(self, delivery: Delivery, *, multiple: bool = False) -> None:
        tag = delivery.delivery_tag
        assert tag in self.open
        self.told.append(f"ack {tag}+" if multiple else f"ack {tag}")
        self.open = [each for each in self.open if (each > tag if multiple else each != tag)]

    def nack(self, delivery: Delivery, *, multiple: bool = False, requeue: bool = True) -> None:
        assert delivery.delivery_tag in self.open
        assert requeue
        self.told.append(f"nack {delivery.delivery_tag}")
        self.open.remove(delivery.delivery_tag)


class Scene:
    def __init__(self, prefetch: int = 100) -> None:
        self.source, self.stats = ToldSource(), BridgeStats()
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.late = RecentAcks(prefetch)
        self.settling = SourceAcks(
            self.source, self.stats, self.late, lambda wait, call: self.later.append((wait, call))
        )

    def publish(self, *tags: int, mandatory: bool = False) -> None:
        self.late.delivered(tags[-1])
        made = [(self.source.delivered(tag), RewrittenMessage("", "q", b"\0\0", b"%d" % tag)) for tag in tags]
        self.settling.published(made, mandatory)

    def confirm(self, first: int, last: int, acked: bool = True) -> None:
        self.settling.decided([ConfirmRange(first, last, acked)])


def test_a_run_from_the_oldest_on_is_acked_by_one_word() -> None:
    scene = Scene()
    scene.publish(1, 2, 3, 4, 5)
    scene.confirm(1, 3)
    scene.confirm(4, 5)
    assert scene.source.told == ["ack 3+", "ack 5+"]
    assert scene.stats.confirmed == 5


def test_messages_confirmed_out_of_order_are_acked_singly() -> None:
    scene = Scene()
    scene.publish(1, 2, 3, 4)
    scene.confirm(3, 3)
    scene.confirm(1, 2)
    scene.confirm(4, 4)
    assert scene.source.told == ["ack 3", "ack 1", "ack 2", "ack 4+"]
    assert scene.settling.under_way == 0


def test_a_refused_one_goes_back_after_a_pause_that_grows_and_is_not_acked_by_a_word_for_all() -> None:
    scene = Scene()
    scene.publish(1, 2, 3)
    scene.confirm(1, 1, acked=False)
    scene.confirm(2, 3)
    [(pause_s, give_back)] = scene.later
    assert pause_s == PAUSE_S
    assert scene.source.told == ["ack 2", "ack 3"]
    give_back()
    assert scene.source.told[-1] == "nack 1"

    scene.publish(4, 5)
    scene.confirm(4, 4, acked=False)
    scene.later[-1][1]()
    scene.confirm(5, 5, acked=False)
    assert [round(wait / PAUSE_S) for wait, _ in scene.later] == [1, 1, 2]


def test_a_returned_message_is_requeued_although_it_is_confirmed() -> None:
    scene = Scene()
    scene.publish(1, 2, 3, mandatory=True)
    header = encode_header_payload(Properties(), 1)
    scene.settling.came_back(ReturnedMessage(312, "NO_ROUTE", "", "q", header, b"2"))
    scene.confirm(1, 3)
    assert scene.source.told == ["ack 1", "ack 3"]
    scene.later[0][1]()
    assert scene.source.told[-1] == "nack 2"
    assert (scene.stats.confirmed, scene.stats.refused) == (2, 1)


def test_in_doubt_are_unconfirmed_messages_and_those_whose_ack_may_be_lost() -> None:
    scene = Scene(prefetch=3)
    scene.publish(1, 2, 3)
    scene.confirm(1, 3)
    scene.publish(4, 5, 6)
    scene.confirm(4, 4)
    scene.confirm(6, 6)
    assert message_ids(each.header_payload for each in scene.settling.undecided()) == ["m5"]
    # the sixth was delivered, so the source has received the acks of the first three
    assert message_ids(scene.late.possibly_lost()) == ["m4", "m6"]


def test_an_old_delivery_that_was_acked_late_is_in_doubt_as_any_other() -> None:
    scene = Scene(prefetch=10)
    scene.publish(*range(1, 11))
    for tag in range(2, 101):
        scene.confirm(tag, tag)
        scene.publish(tag + 9)
    scene.confirm(1, 1)
    assert message_ids(scene.late.possibly_lost())[-1] == "m1"
    # the source sends ten more only if it has received acks of ten more; that one is the last
    scene.publish(*range(109, 119))
    assert scene.late.possibly_lost() == []


def test_a_requeued_message_counts_as_settled() -> None:
    scene = Scene(prefetch=2)
    scene.publish(1, 2)
    scene.confirm(1, 1, acked=False)
    scene.later[0][1]()
    scene.confirm(2, 2)
    scene.publish(3)
    # the source has received the first requeue, and may not have received the second
    assert message_ids(scene.late.possibly_lost()) == ["m2"]


def test_a_source_that_answers_has_heard_everything_and_a_second_consumer_has_a_prefetch_of_its_own() -> None:
    scene = Scene(prefetch=2)
    scene.publish(1, 2)
    scene.confirm(1, 1)
    asked_at = scene.late.settled
    scene.confirm(2, 2)
    scene.late.answered(asked_at)
    # the ack of the second was sent after the question
    assert message_ids(scene.late.possibly_lost()) == ["m2"]
    # and may not know yet: one of before and two for the second consumer
    scene.publish(3, 4)
    assert message_ids(scene.late.possibly_lost()) == ["m2"]
    scene.publish(5)
    assert scene.late.possibly_lost() == []


def test_every_message_in_doubt_is_named_even_if_they_are_many() -> None:
    log = KeptLog()
    headers = [encode_header_payload(Properties(message_id=f"m{at}"), 1) for at in range(65_535)]
    log_possible_duplicates(log, {"name": "test"}, headers)
    assert len(log.doubted_ids()) == 65_535


@given(st.lists(st.tuples(st.integers(1, 8), st.booleans(), st.booleans(), st.booleans()), max_size=60))
def test_after_any_answers_of_a_destination_every_delivery_is_settled_once_and_rightly(
    steps: list[tuple[int, bool, bool, bool]],
) -> None:
    scene, ledger = Scene(), ConfirmLedger()
    decided: dict[int, bool] = {}
    tag = 0
    for count, multiple, acked, early in steps:
        scene.publish(*range(tag + 1, tag + 1 + count))
        tag += count
        ledger.last_no += count
        undecided = [number for number in range(1, tag + 1) if number not in decided]
        number = undecided[0 if early else -1]
        ledger.decide(number, multiple, acked)
        for told in undecided:
            if told == number or (multiple and told < number):
                decided[told] = acked
        scene.settling.decided(ledger.take())
        if early:
            for _, give_back in scene.later:
                give_back()
            scene.later.clear()
    for _, give_back in scene.later:
        give_back()
    assert scene.source.open == [number for number in range(1, tag + 1) if number not in decided]
    assert [each.delivery_tag for each in scene.settling.undecided()] == scene.source.open
    refused = {int(line.split()[1]) for line in scene.source.told if line.startswith("nack")}
    assert refused == {number for number, acked in decided.items() if not acked}
    assert scene.stats.confirmed == sum(decided.values())
