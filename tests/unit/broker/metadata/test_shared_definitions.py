"""The applied definitions: changes in order, and snapshots by their differences."""

import pytest

from tests.unit.broker.metadata.shared_cluster import Maker
from warren.broker.metadata.access_definitions import PermissionDefinition, UserDefinition, VhostDefinition
from warren.broker.metadata.backend import MetadataApplier, MetadataAppliers
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition
from warren.broker.metadata.definition_kinds import DEFINITION_READERS
from warren.broker.metadata.shared_definitions import SharedDefinitions
from warren.broker.metadata.store import IDS_PER_REVISION, Definition, object_id
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.model.journal import MetadataChange
from warren.errors import PRECONDITION_FAILED, ChannelFault, StoreError

VHOST = VhostDefinition("v", "", [], {})
USER = UserDefinition("u", b"", "", [], {})
PERMISSION = PermissionDefinition("u", "v", "", "", "")
EXCHANGE = ExchangeDefinition("v", "e", "direct", True, False, False, {})
QUEUE = QueueDefinition("v", "q", True, False, False, {})
BINDING = BindingDefinition("v", "e", "q", True, "k", {}, True)
EVERYTHING: list[Definition] = [BINDING, QUEUE, EXCHANGE, PERMISSION, USER, VHOST]


@pytest.fixture
def maker() -> Maker:
    return Maker(list(DEFINITION_READERS))


@pytest.fixture
def definitions(maker: Maker) -> SharedDefinitions:
    appliers = MetadataAppliers()
    appliers.add(maker)
    return SharedDefinitions(appliers)


def put(revision: int, definition: Definition) -> MetadataChange:
    return MetadataChange(revision, definition.key(), definition.value())


def test_changes_are_made_in_the_order_in_which_they_come(definitions: SharedDefinitions, maker: Maker) -> None:
    definitions.change(3, [put(2, VHOST), put(2, USER), MetadataChange(3, VHOST.key(), None)])
    assert maker.story == ["+vhosts/v", "+users/u", "-vhosts/v"]
    assert (definitions.applied, definitions.modified("users/u"), definitions.modified("vhosts/v")) == (3, 2, 0)


def test_repeated_changes_are_skipped(definitions: SharedDefinitions, maker: Maker) -> None:
    definitions.change(3, [put(3, VHOST)])
    definitions.change(4, [put(3, VHOST), put(4, USER)])
    assert maker.story == ["+vhosts/v", "+users/u"]


def test_an_object_created_again_has_another_id(definitions: SharedDefinitions, maker: Maker) -> None:
    revisions = [number * IDS_PER_REVISION for number in (2, 3, 4)]
    changes = [put(revisions[0], VHOST), MetadataChange(revisions[1], VHOST.key(), None), put(revisions[2], VHOST)]
    definitions.change(revisions[2], changes)
    assert revisions[1] < maker.made["vhosts/v"][0] == object_id(revisions[2], "vhosts/v") <= revisions[2]


def test_a_snapshot_creates_containers_before_their_contents(definitions: SharedDefinitions, maker: Maker) -> None:
    definitions.replace(9, {one.key(): (5, 5, one.value()) for one in EVERYTHING})
    in_order = [VHOST, USER, PERMISSION, EXCHANGE, QUEUE, BINDING]
    assert maker.story == [f"+{one.key()}" for one in in_order]
    definitions.replace(10, {})
    assert maker.story[6:] == [f"-{one.key()}" for one in reversed(in_order)]
    assert definitions.applied == 10


def test_a_snapshot_changes_only_the_keys_that_differ(definitions: SharedDefinitions, maker: Maker) -> None:
    definitions.replace(
        9, {VHOST.key(): (1, 1, VHOST.value()), USER.key(): (2, 3, USER.value()), QUEUE.key(): (4, 4, QUEUE.value())}
    )
    del maker.story[:]
    definitions.replace(
        20,
        {VHOST.key(): (1, 1, VHOST.value()), USER.key(): (2, 12, USER.value()), QUEUE.key(): (15, 15, QUEUE.value())},
    )
    assert maker.story == [f"-{QUEUE.key()}", f"+{USER.key()}", f"+{QUEUE.key()}"]
    assert (maker.made[USER.key()][0], maker.made[QUEUE.key()][0]) == (2, 15)
    assert (definitions.modified(USER.key()), definitions.modified(VHOST.key())) == (12, 1)


def test_an_older_snapshot_is_ignored(definitions: SharedDefinitions, maker: Maker) -> None:
    definitions.change(5, [put(5, VHOST)])
    definitions.replace(4, {})
    assert list(maker.made) == ["vhosts/v"]
    assert definitions.applied == 5


def test_the_snapshot_of_the_start_is_not_applied_again(definitions: SharedDefinitions, maker: Maker) -> None:
    definitions.adopt(9, {VHOST.key(): (1, 3, VHOST.value())})
    definitions.replace(9, {VHOST.key(): (1, 3, VHOST.value())})
    assert maker.story == []
    assert (definitions.applied, definitions.modified("vhosts/v")) == (9, 3)


def test_the_membership_is_applied_from_the_snapshot_of_the_start_too(
    definitions: SharedDefinitions, maker: Maker
) -> None:
    member, alive = NodeDefinition("a", "disc", ""), LivenessDefinition("a", 7)
    definitions.adopt(9, {one.key(): (1, 3, one.value()) for one in (VHOST, member, alive)})
    assert sorted(maker.made) == ["alive/a", "nodes/a"]
    assert definitions.modified("vhosts/v") == definitions.modified("alive/a") == 3


def test_the_homes_of_queues_are_known_from_changes_and_snapshots(definitions: SharedDefinitions) -> None:
    fleeting = QueueDefinition("v", "gone soon", False, False, False, {}, "a", 0, 7)
    definitions.adopt(9, {fleeting.key(): (1, 3, fleeting.value()), QUEUE.key(): (4, 4, QUEUE.value())})
    assert definitions.homes.transient(("a", 7)) == [("v", "gone soon")]
    definitions.change(11, [MetadataChange(10, fleeting.key(), None), put(11, fleeting)])
    assert definitions.homes.transient_homes() == [("a", 7)]
    definitions.replace(12, {})
    assert definitions.homes.transient_homes() == []


def test_a_definition_that_cannot_be_applied_stops_the_node_with_its_key() -> None:
    appliers = MetadataAppliers()
    appliers.add(Refuser())
    definitions = SharedDefinitions(appliers)
    with pytest.raises(StoreError, match="the metadata holds 'vhosts/v', which cannot be made: no such thing"):
        definitions.change(2, [put(2, VHOST)])


class Refuser(MetadataApplier):
    """Refuses to apply."""

    def kinds(self) -> list[str]:
        return ["vhosts"]

    def put(self, definition: Definition, revision: int) -> None:
        raise ChannelFault(PRECONDITION_FAILED, "no such thing")

    def delete(self, parts: list[str]) -> None:
        """Has nothing to delete."""
