"""Opening connections to virtual hosts, and how many a virtual host or a user may have."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.amqp_client import Connection
from tests.support.operator import Operator
from tests.wire.conftest import Connect, Unique

Dial = Callable[[], Connection]


@pytest.fixture
def user(operator: Operator, unique: Unique) -> Iterator[str]:
    """A user with all permissions in `/`; its password is its name."""
    name = unique("user")
    operator.user(name)
    operator.permit(name)
    yield name
    operator.delete_user(name)


@pytest.fixture
def vhost(operator: Operator, user: str, unique: Unique) -> Iterator[str]:
    name = unique("vhost")
    operator.vhost(name)
    yield name
    operator.delete_vhost(name)


def refused(dial: Dial, user: str, vhost: str, text: str) -> None:
    connection = dial()
    connection.tune_ok(connection.authenticate(user=user, password=user))
    connection.send(0, "connection.open", virtual_host=vhost)
    connection.expect_close(530, f"NOT_ALLOWED - {text}", "connection.open")


def test_a_virtual_host_must_exist_and_be_open_to_the_user(dial: Dial, user: str, vhost: str) -> None:
    refused(dial, user, "wire-absent", "vhost wire-absent not found")
    refused(dial, user, vhost, f"access to vhost '{vhost}' refused for user '{user}'")


def test_an_empty_permission_is_enough_to_open_a_virtual_host(
    operator: Operator, connect: Connect, user: str, vhost: str
) -> None:
    operator.permit(user, "^$", "^$", "^$", vhost)
    connect(user=user, password=user, virtual_host=vhost)


def test_objects_of_one_virtual_host_are_not_in_another(connect: Connect, vhost: str) -> None:
    here, there = connect().channel(), connect(virtual_host=vhost).channel()
    there.call("queue.declare", queue="wire-here-or-there")
    here.send("queue.declare", queue="wire-here-or-there", passive=True)
    here.expect_close(404, "NOT_FOUND - no queue 'wire-here-or-there' in vhost '/'", "queue.declare")


def test_a_virtual_host_takes_only_so_many_connections(
    operator: Operator, dial: Dial, connect: Connect, user: str, vhost: str
) -> None:
    operator.limit_vhost(vhost, "max-connections", 1)
    connect(virtual_host=vhost)
    full = f"access to vhost '{vhost}' refused for user '{user}': connection limit (1) is reached"
    # the limit is looked at before the permission
    refused(dial, user, vhost, full)
    operator.limit_vhost(vhost, "max-connections", 0)
    none = f"access to vhost '{vhost}' refused for user 'guest': connection limit (0) is reached"
    refused(dial, "guest", vhost, none)
    operator.limit_vhost(vhost, "max-connections", -1)
    connect(virtual_host=vhost)


def test_a_virtual_host_takes_only_so_many_queues(operator: Operator, connect: Connect, vhost: str) -> None:
    operator.limit_vhost(vhost, "max-queues", 1)
    channel = connect(virtual_host=vhost).channel()
    channel.call("queue.declare", queue="one")
    channel.call("queue.declare", queue="one")
    full = f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{vhost}' (1) is reached"
    # the limit is looked at before the arguments
    channel.send("queue.declare", queue="two", arguments={"x-expires": "never"})
    channel.expect_close(406, full, "queue.declare")


def test_a_user_has_only_so_many_connections(operator: Operator, dial: Dial, connect: Connect, user: str) -> None:
    operator.limit_user(user, "max-connections", 1)
    connect(user=user, password=user)
    refused(dial, user, "/", f"connection refused for user '{user}': user connection limit (1) is reached")
    # what does not exist is told first
    refused(dial, user, "wire-absent", "vhost wire-absent not found")


def test_a_user_has_only_so_many_channels(operator: Operator, connect: Connect, user: str) -> None:
    operator.limit_user(user, "max-channels", 2)
    connection = connect(user=user, password=user)
    connection.channel()
    connection.channel()
    connection.send(3, "channel.open")
    reached = f"number of channels opened for user '{user}' has reached the maximum allowed user limit of (2)"
    connection.expect_close(530, f"NOT_ALLOWED - {reached}")


def test_connections_end_with_their_virtual_host(operator: Operator, connect: Connect, unique: Unique) -> None:
    name = unique("doomed")
    operator.vhost(name)
    connection = connect(virtual_host=name)
    connection.channel().call("queue.declare", queue="q", exclusive=True)
    operator.delete_vhost(name)
    connection.expect_close(320, f"CONNECTION_FORCED - vhost '{name}' is deleted")
