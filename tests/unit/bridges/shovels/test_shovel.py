"""Which shovels a node wants."""

from tests.bridges.lone_host import LoneHost
from warren.bridges.shovels.shovel import Shovels, key_of
from warren.policy.parameters import Parameter

GOOD = {"src-uri": "amqp://a", "src-queue": "q", "dest-uri": "amqp://b"}


def test_each_parameter_of_the_component_is_a_shovel_and_one_that_makes_no_sense_is_none() -> None:
    host = LoneHost()
    host.defined = [
        Parameter("/", "shovel", "one", GOOD),
        Parameter("/", "shovel", "broken", {"src-queue": "q"}),
        Parameter("/", "shovel", "worse", "no object"),
        Parameter("v", "shovel", "one", GOOD),
        Parameter("/", "federation-upstream", "other", {"uri": "amqp://a"}),
    ]
    assert [shovel.key for shovel in Shovels().wanted(host)] == [key_of("/", "one"), key_of("v", "one")]


def test_a_definition_that_says_the_same_is_the_same_shovel() -> None:
    host = LoneHost()
    host.defined = [Parameter("/", "shovel", "one", GOOD)]
    (first,) = Shovels().wanted(host)
    host.defined = [Parameter("/", "shovel", "one", {**GOOD, "ack-mode": "on-confirm", "reconnect-delay": 5})]
    assert Shovels().wanted(host) == [first]
    host.defined = [Parameter("/", "shovel", "one", {**GOOD, "dest-queue": "other"})]
    assert Shovels().wanted(host) != [first]
