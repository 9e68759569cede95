"""Policies and parameters after a restart of the node."""

from tests.support.core_driver import START_MS
from tests.unit.broker.journal.journal_world import DurableCore, drain, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from tests.unit.broker.refusals import clear_policy, exchange_of, queue_of, refusal, set_policy
from warren.broker.commands.requests import (
    ClearGlobalParameter,
    DeleteVhost,
    PutVhost,
    SetGlobalParameter,
    SetParameter,
    SetPolicy,
)
from warren.broker.model.events import CommandBatch
from warren.broker.policies.parameters import Parameter, ParameterComponent
from warren.broker.policies.policies import Policy
from warren.wire.methods import QueueDeclare


class Any(ParameterComponent):
    """Takes any parameter."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return []


def test_policies_are_back_before_queues_look_at_their_messages() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True))
    set_policy(core, "q", {"max-length": 7, "message-ttl": 60_000}, priority=3)
    set_policy(core, "q", {"max-length": 5}, name="o", operator=True)
    client.read(persistent("q", b"m"))
    again = DurableCore(disk)
    queue = queue_of(again, "q")
    assert (queue.policy, queue.operator_policy) == ("p", "o")
    assert queue.effective_policy == {"max-length": 5, "message-ttl": 60_000}
    assert queue.settings.max_length == 5
    policy = again.broker.policies.policies["/", "p"]
    assert (policy.pattern, policy.apply_to, policy.priority) == ("q", "all", 3)
    assert drain(again.client(), "q") == [b"m"]


def test_an_idle_queue_that_only_a_policy_ends_ends_after_a_restart() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.client().say(QueueDeclare(queue="q", durable=True))
    set_policy(core, "q", {"expires": 1000})
    again = DurableCore(disk, now_ms=START_MS + 500)
    again.pass_ms(1000)
    assert "q" not in again.broker.vhosts["/"].topology.queues


def test_exchanges_follow_their_policies_after_a_restart() -> None:
    disk = PlainDisk()
    set_policy(DurableCore(disk), "^amq.direct$", {"alternate-exchange": "amq.fanout"})
    again = DurableCore(disk)
    assert exchange_of(again, "amq.direct").alternate == "amq.fanout"
    assert exchange_of(again, "amq.topic").alternate == ""


def test_a_limit_that_drops_what_is_on_disk_drops_it_for_good() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    client = core.client()
    client.say(QueueDeclare(queue="q", durable=True))
    client.read(b"".join(persistent("q", b"%d" % number) for number in range(50)))
    # after a restart all of them are on disk only
    middle = DurableCore(disk)
    set_policy(middle, "q", {"max-length": 2})
    middle.settle()
    assert queue_of(middle, "q").ready_count() == 2
    clear_policy(middle)
    assert drain(DurableCore(disk).client(), "q") == [b"48", b"49"]


def test_a_cleared_policy_stays_cleared() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    set_policy(core, "q", {"max-length": 7})
    clear_policy(core)
    assert DurableCore(disk).broker.policies.policies == {}


def test_policies_of_a_deleted_virtual_host_are_deleted() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(PutVhost("v", "", [], None))
    core.command(SetPolicy(Policy("v", "p", "q", "all", {"max-length": 1}), False))
    core.command(SetPolicy(Policy("v", "o", "q", "all", {"max-length": 1}), True))
    core.broker.parameters.components["any"] = Any()
    core.command(SetParameter("v", "any", "n", 1))
    set_policy(core, "^q$", {"max-length": 1}, name="other")
    core.command(DeleteVhost("v"))
    core.command(PutVhost("v", "", [], None))
    for policies in (core.broker.policies, DurableCore(disk).broker.policies):
        assert list(policies.policies) == [("/", "other")]
        assert (policies.operator_policies, policies.parameters) == ({}, {})


def test_a_policy_may_be_for_a_virtual_host_that_the_same_file_makes() -> None:
    core = DurableCore(PlainDisk())
    policy = SetPolicy(Policy("v", "p", "^amq.direct$", "all", {"alternate-exchange": "a"}), False)
    assert refusal(core, policy) == ("not_found", "vhost_not_found")
    core.command(CommandBatch([PutVhost("v", "", [], None), policy]))
    assert core.broker.vhosts["v"].topology.exchanges["amq.direct"].alternate == "a"


def test_global_parameters_are_kept() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(SetGlobalParameter("a", {"b": [1, None]}))
    core.command(SetGlobalParameter("gone", 1))
    core.command(ClearGlobalParameter("gone"))
    again = DurableCore(disk)
    assert again.broker.policies.global_parameters["a"] == {"b": [1, None]}
    assert "gone" not in again.broker.policies.global_parameters


def test_a_cluster_has_one_id_for_life() -> None:
    disk = PlainDisk()
    first = DurableCore(disk).broker.policies.global_parameters["internal_cluster_id"]
    assert str(first).startswith("rabbitmq-cluster-id-")
    assert DurableCore(disk).broker.policies.global_parameters["internal_cluster_id"] == first


def test_an_answer_waits_until_the_policy_is_on_disk() -> None:
    core = DurableCore(PlainDisk())
    before = len(core.orders)
    set_policy(core, "q", {"max-length": 7})
    # the answer came, and the batch with the change was ordered and carried out before it
    assert len(core.orders) > before
    assert "policies/%2F/p" in core.disk.values
