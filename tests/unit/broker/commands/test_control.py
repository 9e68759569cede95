"""Commands between their transaction and their answer, with a backend that decides late."""

import pytest

from tests.support.core_driver import Core
from tests.unit.broker.journal.journal_world import DurableCore
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.access.passwords import SHA256
from warren.broker.commands.requests import (
    ClearUserLimits,
    DeclareQueue,
    DeleteUser,
    DeleteVhost,
    ForceCloseConnection,
    PutUser,
    PutVhost,
    SetGlobalParameter,
    SetPermission,
    SetPolicy,
    SetTopicPermission,
    SetUserLimits,
    SetVhostLimits,
)
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.effects import CompleteCommand
from warren.broker.model.events import Command, CommandBatch, CommandReceived
from warren.broker.policies.policies import Policy


class LateBackend(MetadataBackend):
    """Decides nothing until the test does."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.transactions: list[MetadataTransaction] = []
        self._waiter: TransactionWaiter | None = None
        self._real = core.broker.control.backend
        core.broker.control.backend = self

    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        self.transactions.append(transaction)
        self._waiter = waiter
        return False

    def is_immediate(self) -> bool:
        return False

    def commit(self) -> list[CompleteCommand]:
        """The last transaction is committed; the answers."""
        self.make()
        return self.decide("committed")

    def make(self) -> None:
        assert self._real.submit(self.transactions[-1], None)

    def decide(self, outcome: str, *reason: str) -> list[CompleteCommand]:
        """Call the waiter at the beginning of a turn; the answers of that turn."""
        waiter, self._waiter = self._waiter, None
        turn = self.core.broker.turn
        turn.effects = []
        getattr(waiter, outcome)(*reason)
        effects = turn.effects + self.core.turn()
        return [effect for effect in effects if isinstance(effect, CompleteCommand)]

    def commit_from_another_node(self, command: Command) -> None:
        """Another node commits this command meanwhile."""
        self.core.broker.control.backend = self._real
        self.core.command(command)
        self.core.broker.control.backend = self


def put_user(name: str = "u", password_hash: bytes = b"hash") -> PutUser:
    return PutUser(name, password_hash, SHA256, [])


def put_vhost(name: str = "v", tracing: bool | None = None) -> PutVhost:
    return PutVhost(name, "", [], tracing)


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def late(core: Core) -> LateBackend:
    return LateBackend(core)


def order(core: Core, command: Command, ticket: int = 7) -> list[CompleteCommand]:
    """The answers of the turn that receives the command."""
    return [effect for effect in core.turn(CommandReceived(ticket, command)) if isinstance(effect, CompleteCommand)]


def test_nothing_is_changed_or_answered_before_the_commit(core: Core, late: LateBackend) -> None:
    assert order(core, put_user()) == []
    assert "u" not in core.broker.access.users
    assert late.commit() == [CompleteCommand(7, True)]
    assert "u" in core.broker.access.users


def test_an_outdated_transaction_is_built_again_from_the_current_definitions(core: Core, late: LateBackend) -> None:
    order(core, put_user())
    late.commit_from_another_node(CommandBatch([put_user(), SetUserLimits("u", {"max-channels": 3})]))
    assert late.decide("outdated") == []
    assert late.commit() == [CompleteCommand(7, False)]
    assert core.broker.access.users["u"].limits == {"max-channels": 3}
    assert len(late.transactions) == 2


def test_a_command_that_has_become_impossible_is_refused(core: Core, late: LateBackend) -> None:
    order(core, CommandBatch([put_user("w"), DeleteUser("guest")]))
    late.commit_from_another_node(DeleteUser("guest"))
    assert late.decide("outdated") == [CompleteCommand(7, None, "not_found", "Not Found", 1)]
    assert core.broker.access.users == {}


def test_a_command_that_is_always_outdated_is_given_up(core: Core, late: LateBackend) -> None:
    order(core, put_user())
    for _again in range(19):
        assert late.decide("outdated") == []
    [answer] = late.decide("outdated")
    assert (answer.ticket, answer.refusal, len(late.transactions)) == (7, "unavailable", 20)
    assert "20 times" in answer.reason


def test_an_unknown_outcome_is_answered_with_its_reason(core: Core, late: LateBackend) -> None:
    order(core, put_user())
    assert late.decide("failed", "no majority") == [CompleteCommand(7, None, "unavailable", "no majority")]
    assert "u" not in core.broker.access.users


def test_a_refused_command_proposes_nothing(core: Core, late: LateBackend) -> None:
    assert order(core, put_user("")) == [CompleteCommand(7, None, "bad_request", "user name must not be empty")]
    assert late.transactions == []


def test_a_command_without_changes_needs_no_commit(core: Core, late: LateBackend) -> None:
    client = core.client()
    assert order(core, ForceCloseConnection(client.number, "enough")) == [CompleteCommand(7)]
    assert late.transactions == []
    assert client.names() == ["connection.close"]


def test_a_node_traces_once_the_virtual_host_is_committed(core: Core, late: LateBackend) -> None:
    order(core, put_vhost("/", True))
    assert core.broker.vhosts["/"].tracing is False
    late.commit()
    assert core.broker.vhosts["/"].tracing is True


def test_a_virtual_host_that_went_at_once_is_not_traced(core: Core, late: LateBackend) -> None:
    order(core, put_vhost("v", True))
    late.make()
    late.commit_from_another_node(DeleteVhost("v"))
    assert late.decide("committed") == [CompleteCommand(7, True)]


@pytest.mark.parametrize("outcome", [("failed", "no majority"), ("outdated",)])
def test_a_refusal_says_how_many_changes_were_applied(core: Core, late: LateBackend, outcome: tuple[str, ...]) -> None:
    order(core, CommandBatch([put_user("w"), put_user("x"), SetUserLimits("guest", {"max-channels": 3})]))
    late.transactions[-1].made = 2
    assert late.decide("outdated") == []
    late.transactions[-1].made = 1
    late.commit_from_another_node(DeleteUser("guest"))
    [answer] = late.decide(*outcome)
    assert answer.reason.endswith("; 2 of 3 changes were made before that, and stay")


def test_an_answer_that_is_committed_late_waits_for_the_disk() -> None:
    core = DurableCore(PlainDisk())
    late = LateBackend(core)
    assert order(core, put_user()) == []
    late.commit()
    assert core.answers[7] == CompleteCommand(7, True)
    assert "users/u" in core.disk.values


def test_a_batch_of_commands_is_one_transaction(core: Core, late: LateBackend) -> None:
    commands: list[Command] = [
        put_vhost(),
        put_vhost(),
        SetVhostLimits("v", {"max-queues": 1}),
        SetVhostLimits("v", {"max-connections": 2}),
        put_user(),
        SetUserLimits("u", {"max-channels": 3, "max-connections": 4}),
        ClearUserLimits("u", ["max-channels"]),
        put_user("u", b"other"),
        SetPermission("u", "v", "a", "", ""),
        SetPermission("u", "v", "b", "", ""),
        SetTopicPermission("u", "v", "amq.topic", "", ""),
        SetTopicPermission("u", "v", "amq.topic", "x", ""),
        SetPolicy(Policy("v", "p", "^q", "queues", {"max-length": 5}), False),
    ]
    assert order(core, CommandBatch(commands)) == []
    assert len(late.transactions) == 1
    [answer] = late.commit()
    assert answer.result == [True, False, None, None, True, None, None, False, True, False, True, False, None]
    access = core.broker.access
    assert core.broker.vhosts["v"].limits == {"max-queues": 1, "max-connections": 2}
    assert (access.users["u"].limits, access.users["u"].password_hash) == ({"max-connections": 4}, b"other")
    assert access.permissions["u", "v"].configure == "b"
    assert access.topic_permissions["u", "v", "amq.topic"].write == "x"
    assert ("v", "p") in core.broker.policies.policies


def relied_on(late: LateBackend) -> list[str]:
    return sorted([*late.transactions[-1].relied_on, *late.transactions[-1].relied_on_under])


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (SetPermission("guest", "/", "", "", ""), ["permissions/guest/%2F", "users/guest", "vhosts/%2F"]),
        (
            SetTopicPermission("guest", "/", "e", "", ""),
            ["topic_permissions/guest/%2F/e", "users/guest", "vhosts/%2F"],
        ),
        (SetPolicy(Policy("/", "p", "", "all", {"max-length": 1}), True), ["operator_policies/%2F/p", "vhosts/%2F"]),
        (DeclareQueue("/", "q", True, False, {}), ["queues/%2F/q", "vhosts/%2F"]),
        (SetUserLimits("guest", {"max-channels": 1}), ["users/guest"]),
        (SetGlobalParameter("g", 1), ["global_parameters/g"]),
    ],
)
def test_a_transaction_relies_on_the_keys_of_its_containers(
    core: Core, late: LateBackend, command: Command, keys: list[str]
) -> None:
    order(core, command)
    assert relied_on(late) == keys


def test_deleting_a_user_relies_on_its_permissions_staying_the_same(core: Core, late: LateBackend) -> None:
    order(core, DeleteUser("guest"))
    assert relied_on(late) == ["permissions/guest/", "permissions/guest/%2F", "topic_permissions/guest/", "users/guest"]


def test_deleting_a_virtual_host_relies_on_nothing_coming_into_it(core: Core, late: LateBackend) -> None:
    order(core, DeleteVhost("/"))
    assert relied_on(late) == [
        "bindings/%2F/",
        "exchanges/%2F/",
        "operator_policies/%2F/",
        "parameters/%2F/",
        "permissions/",
        "permissions/guest/%2F",
        "policies/%2F/",
        "queues/%2F/",
        "topic_permissions/",
        "vhosts/%2F",
    ]
