"""Which shovels a node wants."""

import asyncio

from tests.bridges.lone_host import LoneHost
from warren.bridges.shovels import Shovels, clear_finished, shovel_key
from warren.broker.policies.parameters import Parameter

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
    assert [shovel.key for shovel in Shovels().wanted(host)] == [shovel_key("/", "one"), shovel_key("v", "one")]


def test_a_definition_that_says_the_same_is_the_same_shovel() -> None:
    host = LoneHost()
    host.defined = [Parameter("/", "shovel", "one", GOOD)]
    (first,) = Shovels().wanted(host)
    host.defined = [Parameter("/", "shovel", "one", {**GOOD, "ack-mode": "on-confirm", "reconnect-delay": 5})]
    assert Shovels().wanted(host) == [first]
    host.defined = [Parameter("/", "shovel", "one", {**GOOD, "dest-queue": "other"})]
    assert Shovels().wanted(host) != [first]


def test_one_that_is_done_forgets_its_own_definition_and_not_the_one_that_took_its_place() -> None:
    host = LoneHost()
    host.defined = [Parameter("/", "shovel", "one", GOOD), Parameter("v", "shovel", "one", GOOD)]
    done = Shovels().wanted(host)[0]
    other = Parameter("/", "shovel", "one", {**GOOD, "dest-queue": "other"})
    host.defined = [other, *host.defined[1:]]
    asyncio.run(clear_finished(host, done))
    assert host.defined[0] is other
    host.defined[0] = Parameter("/", "shovel", "one", {**GOOD, "ack-mode": "on-confirm"})
    asyncio.run(clear_finished(host, done))
    assert [each.vhost for each in host.defined] == ["v"]
