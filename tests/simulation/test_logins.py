"""Logins with slow password checks, on nodes that are killed meanwhile."""

from tests.simulation.scenario import Scenario
from warren.broker.access.passwords import SCRYPT
from warren.broker.model.settings import BrokerSettings
from warren.sim.history import QueueSpec
from warren.sim.process import HEARTBEAT_S


def slow_logins(spec: QueueSpec) -> Scenario:
    return Scenario(spec, settings=BrokerSettings(heartbeat_s=HEARTBEAT_S, password_hashing_module=SCRYPT))


def test_clients_wait_for_their_passwords_and_then_work() -> None:
    spec = QueueSpec("work")
    scenario = slow_logins(spec)
    publisher = scenario.publisher()
    scenario.consumer(spec)
    scenario.publish(publisher, spec, 10)
    scenario.finish()
    assert scenario.confirmed_count() == 10
    # the second client had the password of the first
    assert scenario.world.history.seen["VerifyPassword"] == 1


def test_a_node_that_is_killed_remembers_users_but_no_passwords() -> None:
    spec = QueueSpec("work")
    scenario = slow_logins(spec)
    publisher = scenario.publisher()
    scenario.publish(publisher, spec, 5)
    scenario.until(lambda: scenario.confirmed_count() == 5)
    scenario.node.kill()
    scenario.until(lambda: publisher.connections == 2 and publisher.is_open)
    scenario.consumer(spec)
    scenario.finish()
    assert scenario.world.history.seen["VerifyPassword"] == 2
