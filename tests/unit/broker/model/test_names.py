"""Generated names: the same for the same seed, and never repeated."""

import string

from tests.support.core_driver import Core
from warren.broker.broker import Broker
from warren.broker.model.names import NameGenerator
from warren.broker.model.settings import BrokerSettings
from warren.wire.methods import BasicConsume, BasicConsumeOk, QueueDeclare, QueueDeclareOk

PLAIN = set(string.ascii_letters + string.digits + "-_")


def test_the_same_seed_generates_the_same_names() -> None:
    one, other = NameGenerator(b"seed"), NameGenerator(b"seed")
    assert [one.fresh("a.") for _ in range(10)] == [other.fresh("a.") for _ in range(10)]


def test_another_seed_generates_other_names() -> None:
    assert NameGenerator(b"one").fresh("") != NameGenerator(b"two").fresh("")


def test_no_name_repeats_with_any_prefix() -> None:
    names = NameGenerator(b"seed")
    invented = [names.fresh("") for _ in range(10_000)]
    assert len(set(invented)) == 10_000


def test_a_name_is_its_prefix_and_twenty_two_plain_characters() -> None:
    name = NameGenerator(b"seed").fresh("amq.gen-")
    assert name.startswith("amq.gen-")
    assert len(name) == len("amq.gen-") + 22
    assert set(name[8:]) <= PLAIN


def test_a_seed_may_have_any_length() -> None:
    names = {NameGenerator(seed).fresh("") for seed in (b"", b"x", bytes(64), b"y" * 1000)}
    assert len(names) == 4


def test_a_node_names_its_queues_and_consumers_by_its_seed() -> None:
    invented = []
    for _ in range(2):
        client = Core().client()
        client.say(QueueDeclare(), QueueDeclare(), BasicConsume(queue=""))
        first, second, consumer = client.methods()
        assert isinstance(first, QueueDeclareOk)
        assert isinstance(second, QueueDeclareOk)
        assert isinstance(consumer, BasicConsumeOk)
        invented.append((first.queue, second.queue, consumer.consumer_tag))
    assert invented[0] == invented[1]
    assert len(set(invented[0])) == 3
    assert invented[0][2].startswith("amq.ctag-")
    assert Broker(BrokerSettings(), seed=b"another").fresh_name("amq.gen-") != invented[0][0]


def test_numbers_are_fresh_and_come_from_the_seed() -> None:
    one, same, other = NameGenerator(b"seed"), NameGenerator(b"seed"), NameGenerator(b"seeds")
    numbers = [one.draw() for _ in range(100)]
    assert len(set(numbers)) == 100
    assert all(0 <= number < 2**64 for number in numbers)
    assert [same.draw() for _ in range(100)] == numbers
    assert other.draw() != numbers[0]
