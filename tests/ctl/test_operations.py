"""An operator's commands to a running node, and their effects."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.ctl.conftest import Ctl, Said
from tests.ctl.shop import VHOST, open_shop
from tests.node.serving import Serving


@pytest.fixture
def shop(node: Serving, ctl: Ctl) -> Iterator[pika.BlockingConnection]:
    assert ctl("add_vhost", VHOST).code == 0
    with open_shop(node.address()[1]) as connection:
        yield connection
    assert ctl("delete_vhost", VHOST).code == 0


def lines(said: Said) -> list[str]:
    assert (said.code, said.err) == (0, "")
    return said.out.splitlines()


def test_a_list_longer_than_a_page_of_the_api_is_whole_and_each_row_is_there_once(node: Serving, ctl: Ctl) -> None:
    count = 1100
    lines(ctl("add_vhost", "ctl-many"))
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.address()[1], "ctl-many")) as connection:
        channel = connection.channel()
        for number in range(count):
            channel.queue_declare(f"q{number}")
    names = lines(ctl("-s", "-p", "ctl-many", "list_queues", "name"))
    assert sorted(names) == sorted(f"q{number}" for number in range(count))
    lines(ctl("delete_vhost", "ctl-many"))


@pytest.mark.usefixtures("shop")
def test_a_connection_and_its_channel_are_listed_with_all_their_columns(ctl: Ctl) -> None:
    columns = "name user vhost peer_host state channels protocol ssl timeout auth_mechanism channel_max frame_max"
    (found,) = [json.loads(ctl("--formatter", "json", "list_connections", *columns.split()).out)]
    (row,) = [row for row in found if row["vhost"] == VHOST]
    assert {**row, "name": ""} == {
        "name": "",
        "user": "guest",
        "vhost": VHOST,
        "peer_host": "127.0.0.1",
        "state": "running",
        "channels": 1,
        "protocol": [0, 9, 1],
        "ssl": False,
        "timeout": 600,
        "auth_mechanism": "PLAIN",
        "channel_max": 2047,
        "frame_max": 131072,
    }
    columns = "connection name number user vhost confirm transactional consumer_count prefetch_count"
    channels = json.loads(ctl("--formatter", "json", "list_channels", *columns.split()).out)
    (channel,) = [channel for channel in channels if channel["vhost"] == VHOST]
    assert channel["name"] == f"{row['name']} (1)"
    assert channel["connection"] == f"<warren@here.{row['name'].replace(' -> ', '-')}>"
    assert [channel[name] for name in columns.split()[2:]] == [1, "guest", VHOST, True, False, 1, 7]


@pytest.mark.parametrize("by", ["pid", "name"])
def test_a_connection_is_closed_by_its_listed_name_and_its_client_gets_the_reason(
    by: str, ctl: Ctl, shop: pika.BlockingConnection
) -> None:
    (found,) = lines(ctl("-s", "list_connections", by, "vhost"))
    assert found.endswith(f"\t{VHOST}")
    assert lines(ctl("close_connection", found.partition("\t")[0], "moving house, à bientôt"))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        shop.process_data_events(time_limit=10)
    assert closed.value.args == (320, "CONNECTION_FORCED - moving house, à bientôt")


def test_only_the_connections_of_the_named_user_are_closed(ctl: Ctl, shop: pika.BlockingConnection) -> None:
    lines(ctl("close_all_user_connections", "nobody", "why not"))
    shop.process_data_events()
    lines(ctl("close_all_user_connections", "guest", "why not"))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        shop.process_data_events(time_limit=10)


def test_purging_and_deleting_a_queue(ctl: Ctl, shop: pika.BlockingConnection) -> None:
    assert lines(ctl("-s", "-p", VHOST, "list_queues", "name", "messages_ready"))[-2:] == ["orders\t3", "used\t0"]
    assert lines(ctl("-q", "-p", VHOST, "purge_queue", "orders")) == []
    assert lines(ctl("-q", "-p", VHOST, "delete_queue", "--if-empty", "orders")) == [
        "Queue was successfully deleted with 0 ready messages"
    ]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        shop.channel().queue_declare("orders", passive=True)


def test_definitions_go_to_a_file_that_only_its_owner_reads_and_back(ctl: Ctl, tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    lines(ctl("add_vhost", "ctl-kept"))
    lines(ctl("-p", "ctl-kept", "set_policy", "short", "^a", '{"max-length": 5}'))
    lines(ctl("add_user", "ctl-kept-user", "s3cret"))
    said = ctl("export_definitions", str(path))
    assert lines(said) == [f'Exporting definitions in JSON to a file at "{path}" ...']
    assert path.stat().st_mode & 0o077 == 0
    lines(ctl("delete_vhost", "ctl-kept"))
    lines(ctl("delete_user", "ctl-kept-user"))
    assert lines(ctl("import_definitions", str(path)))
    assert lines(ctl("-s", "-p", "ctl-kept", "list_policies")) == ['ctl-kept\tshort\t^a\tall\t{"max-length":5}\t0']
    assert ctl("authenticate_user", "ctl-kept-user", "s3cret").code == 0
    document = json.loads(ctl("export_definitions", "-").out)
    assert "ctl-kept" in [vhost["name"] for vhost in document["vhosts"]]
    lines(ctl("delete_vhost", "ctl-kept"))
    lines(ctl("delete_user", "ctl-kept-user"))


def test_definitions_that_are_half_right_change_nothing(ctl: Ctl) -> None:
    said = ctl(
        "-q", "import_definitions", "-", typed='{"vhosts": [{"name": "ctl-half"}],\n "users": [{"name": "ctl-u"}]}'
    )
    assert said.code == 69
    assert said.err.startswith("Error:\n")
    assert "ctl-half" not in lines(ctl("-s", "list_vhosts"))
    broken = ctl("-q", "import_definitions", typed="{bad")
    assert broken.code == 65
    assert broken.err.startswith("Error:\nFailed to deserialise input (format: JSON)")


def test_tracing_is_switched_on_and_off_and_leaves_the_rest_of_a_virtual_host(ctl: Ctl) -> None:
    lines(ctl("add_vhost", "ctl-traced", "--description", "to be traced", "--tags", "a,b"))
    row = ("list_vhosts", "name", "description", "tags", "tracing")
    assert "ctl-traced\tto be traced\t[a, b]\tfalse" in lines(ctl("-s", *row))
    assert lines(ctl("-q", "-p", "ctl-traced", "trace_on")) == ["Trace enabled for vhost ctl-traced"]
    assert "ctl-traced\tto be traced\t[a, b]\ttrue" in lines(ctl("-s", *row))
    assert lines(ctl("-q", "-p", "ctl-traced", "trace_off")) == ["Trace disabled for vhost ctl-traced"]
    assert "ctl-traced\tto be traced\t[a, b]\tfalse" in lines(ctl("-s", *row))
    lines(ctl("delete_vhost", "ctl-traced"))
    refused = ctl("-p", "ctl-traced", "trace_on")
    assert (refused.code, refused.err) == (65, "Virtual host 'ctl-traced' does not exist\n")


def test_changing_tags_or_a_password_leaves_the_rest_of_a_user(ctl: Ctl) -> None:
    assert lines(ctl("-q", "add_user", "ctl-two", typed="typed in\n")) == ["Password: "]
    lines(ctl("set_user_tags", "ctl-two", "monitoring"))
    assert lines(ctl("-q", "authenticate_user", "ctl-two", typed="typed in\n")) == ["Password: ", "Success"]
    lines(ctl("change_password", "ctl-two", "changed"))
    assert "ctl-two\t[monitoring]" in lines(ctl("-s", "list_users"))
    assert lines(ctl("--user", "ctl-two", "--password", "changed", "-s", "list_vhosts", "name")) == ["/"]
    lines(ctl("delete_user", "ctl-two"))


@pytest.mark.parametrize("pattern", ["[", "("])
def test_a_pattern_that_is_none_is_refused_with_the_reason(pattern: str, ctl: Ctl) -> None:
    said = ctl("-q", "set_permissions", "guest", pattern, ".*", ".*")
    assert (said.code, said.out) == (69, "")
    assert "missing" in said.err


def test_another_users_password_is_refused(ctl: Ctl) -> None:
    said = ctl("-q", "--password", "wrong", "list_users")
    assert (said.code, said.out) == (69, "")
    assert said.err.endswith(" does not accept this user name and password\n")


def test_another_node_than_those_of_the_cluster_is_unavailable(ctl: Ctl) -> None:
    assert ctl("-n", "warren@here", "list_users").code == 0
    assert ctl("-n", "warren", "list_users").code == 0
    said = ctl("-n", "rabbit@there", "list_users")
    assert (said.code, said.out) == (69, "")
    assert said.err.startswith("Error: unable to perform an operation on node 'rabbit@there'.")


def test_a_closed_output_pipe_is_not_an_error(node: Serving) -> None:
    host, port = node.address("http")
    command = f"set -o pipefail; {sys.executable} -m warren.cli.main ctl --http {host}:{port} report | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Reporting server status of node warren@here ...\n"
