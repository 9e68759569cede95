"""Users, permissions, virtual hosts and limits are there after the node was killed, as soon as they were answered."""

from typing import Any

from tests.support.amqp_client import Connection
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator


def operator_of(node: NodeProcess) -> Operator:
    return Operator(node.addresses["http"])


def start_again(node: NodeProcess, manner: str) -> None:
    """`restart` or `crash`."""
    getattr(node, manner)()


def refusal(node: NodeProcess, user: str, vhost: str, queue: str) -> str:
    """How declaring a queue is refused; empty if it is not."""
    connection = Connection.opened(node.amqp, vhost, user=user, password=user)
    channel = connection.channel()
    channel.send("queue.declare", queue=queue, exclusive=True)
    answer = channel.next()
    connection.close()
    text: str = answer.reply_text if answer.name == "channel.close" else ""
    return text


def test_everything_about_users_and_virtual_hosts_comes_back(node: NodeProcess, again: str) -> None:
    operator = operator_of(node)
    operator.vhost("sales/ö")
    operator.user("shop", "management")
    operator.permit("shop", "^shop", ".*", ".*", vhost="sales/ö")
    operator.permit_topics("shop", "amq.topic", "^a", "^b", vhost="sales/ö")
    operator.limit_user("shop", "max-channels", 5)
    operator.limit_vhost("sales/ö", "max-queues", 7)

    def everything() -> list[Any]:
        kinds = ("users", "permissions", "topic-permissions", "vhost-limits", "user-limits")
        return [operator_of(node).read(kind) for kind in kinds]

    before = everything()
    start_again(node, again)
    assert everything() == before
    assert refusal(node, "shop", "sales/ö", "shop.orders") == ""
    refused = "ACCESS_REFUSED - access to queue 'other' in vhost 'sales/ö' refused for user 'shop'"
    assert refusal(node, "shop", "sales/ö", "other") == refused


def test_deleted_users_and_permissions_stay_deleted(node: NodeProcess, again: str) -> None:
    operator = operator_of(node)
    operator.vhost("doomed")
    operator.user("leaver")
    operator.permit("leaver", vhost="doomed")
    operator.permit("leaver")
    connection = Connection.opened(node.amqp, "doomed")
    connection.channel().call("queue.declare", queue="q", durable=True)
    operator.delete_user("leaver")
    operator.delete_vhost("doomed")
    connection.expect_close(320, "CONNECTION_FORCED - vhost 'doomed' is deleted")
    start_again(node, again)
    operator = operator_of(node)
    assert [user["name"] for user in operator.read("users")] == ["guest"]
    assert [vhost["name"] for vhost in operator.read("vhosts")] == ["/"]
    assert [permission["user"] for permission in operator.read("permissions")] == ["guest"]
    assert operator.read("queues") == []
