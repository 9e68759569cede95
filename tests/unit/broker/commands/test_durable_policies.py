"""Policies and parameters after a restart of the node."""

from tests.support.core_driver import START_MS
from tests.unit.broker.journal.journal_world import DurableCore, drain, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from tests.unit.broker.refusals import clear_policy, exchange_of, queue_of, refusal, set_policy
from warren.broker.commands.policies import VHOST_STEPS_MAX
from warren.broker.commands.requests import (
    ClearGlobalParameter,
    DeleteVhost,
    PutVhost,
    SetGlobalParameter,
    SetParameter,
    SetPermission,
    SetPolicy,
)
from warren.broker.metadata.access_definitions import PermissionDefinition, TopicPermissionDefinition
from warren.broker.metadata.policy_definitions import PolicyDefinition
from warren.broker.metadata.store import Definition
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


def test_a_recorded_pattern_that_cannot_be_used_matches_nothing_and_is_logged() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.client().say(QueueDeclare(queue="orders", durable=True))
    definitions: list[Definition] = [
        PolicyDefinition(False, "/", "p", "(?<=or)ders", "all", {"max-length": 7}, 0),
        PermissionDefinition("guest", "/", ".*", "(o)\\1", ".*"),
        TopicPermissionDefinition("guest", "/", "amq.topic", ".*", "(?>o)"),
    ]
    for definition in definitions:
        disk.values[definition.key()] = (disk.revision, definition.value())
    again = DurableCore(disk)
    assert (queue_of(again, "orders").policy, queue_of(again, "orders").effective_policy) == ("", {})
    assert not again.broker.access.permissions["guest", "/"].writes.matches("oo")
    said = {note.fields["key"]: str(note.fields["reason"]) for note in again.notes if note.name == "pattern.unusable"}
    assert sorted(said) == sorted(definition.key() for definition in definitions)
    reason = "the pattern '(?<=or)ders' matches nothing: look-behind assertions are not supported, at offset 0"
    assert said[definitions[0].key()] == reason


def test_a_pattern_that_cannot_be_used_is_refused_with_a_sentence() -> None:
    core = DurableCore(PlainDisk())
    for policy in (
        Policy("/", "p", "(a)\\1", "all", {"max-length": 7}),
        Policy("/", "p", "a", "all", {"federation-upstream-pattern": "(a)\\1"}),
    ):
        kind, reason = refusal(core, SetPolicy(policy, False))
        assert kind == "bad_request"
        assert "pattern '(a)\\1' cannot be used: back references are not supported" in reason
    reason = "invalid_regexp: '(a)\\1' cannot be used: back references are not supported"
    assert refusal(core, SetPermission("guest", "/", "", "(a)\\1", "")) == ("bad_request", reason)


def test_the_patterns_of_a_virtual_host_have_a_size_together() -> None:
    core = DurableCore(PlainDisk())
    large = "((a?b?){15}){15}"
    for number in range(VHOST_STEPS_MAX // 904):
        set_policy(core, large, {"max-length": 7}, name=f"p{number}")
    kind, reason = refusal(core, SetPolicy(Policy("/", "q", large, "all", {"max-length": 7}), False))
    assert kind == "bad_request"
    assert "the patterns of the policies of vhost '/' are too large" in reason
    set_policy(core, large, {"max-length": 8}, name="p0")


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


def test_messages_dropped_by_a_new_limit_do_not_return_after_a_restart() -> None:
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
