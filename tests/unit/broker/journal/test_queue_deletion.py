"""A durable queue that is deleted in the turn of its last messages: the deletion is written last."""

from tests.support.core_driver import Client
from tests.unit.broker.journal.journal_world import DurableCore, get, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.model.effects import AppendRecords, Effect
from warren.wire.field_tables import Table
from warren.wire.methods import BasicReject, QueueDelete

DYING: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}


def stores(effects: list[Effect]) -> list[tuple[bool, list[str]]]:
    """Whether each batch has records, and the keys it deletes."""
    found = [effect for effect in effects if isinstance(effect, AppendRecords)]
    return [(bool(effect.data), [change.key for change in effect.changes if change.value is None]) for effect in found]


def holder_of_a_message(core: DurableCore) -> tuple[Client, int]:
    client = core.client()
    client.declare("graves", durable=True)
    client.declare("dying", DYING, durable=True)
    client.read(persistent("dying", b"precious"))
    tag, _body = get(client, "dying")
    return client, tag


def test_a_dead_letter_is_written_before_its_queue_is_deleted() -> None:
    client, tag = holder_of_a_message(DurableCore(PlainDisk()))
    effects = client.say(BasicReject(delivery_tag=tag, requeue=False), QueueDelete("dying"))
    assert stores(effects)[:2] == [(True, []), (False, ["queues/%2F/dying"])]


def test_wherever_the_node_dies_the_message_is_in_one_queue_or_the_other() -> None:
    core = DurableCore(PlainDisk())
    client, tag = holder_of_a_message(core)
    before = len(core.orders)
    client.say(BasicReject(delivery_tag=tag, requeue=False), QueueDelete("dying"))
    assert len(core.orders) >= before + 2
    for done in range(before, len(core.orders) + 1):
        disk = PlainDisk()
        for order in core.orders[:done]:
            disk.carry_out(order)
        queues = DurableCore(disk).broker.vhosts["/"].topology.queues
        assert sum(queue.ready_count() for queue in queues.values()) >= 1, f"after {done} orders"
