"""The table of verbs: it is complete, every example works, and the manual lists every verb."""

import shlex
from pathlib import Path

import pytest

from warren.cli.ctl.catalog import GROUPS, VERBS
from warren.cli.ctl.command_line import read
from warren.cli.ctl.verb import Verb

ROOT = Path(__file__).parents[4]
EXPECTED = """
    list_queues list_exchanges list_bindings list_connections list_channels list_consumers list_vhosts list_users
    list_permissions list_user_permissions list_topic_permissions list_user_topic_permissions list_policies
    list_operator_policies list_parameters list_global_parameters list_vhost_limits list_user_limits add_user
    delete_user change_password clear_password authenticate_user set_user_tags set_permissions clear_permissions
    set_topic_permissions clear_topic_permissions set_policy clear_policy set_operator_policy clear_operator_policy
    set_parameter clear_parameter set_global_parameter clear_global_parameter set_vhost_limits clear_vhost_limits
    set_user_limits clear_user_limits add_vhost delete_vhost purge_queue delete_queue close_connection
    close_all_connections close_all_user_connections trace_on trace_off export_definitions import_definitions status
    cluster_status environment report ping await_startup is_running stop set_cluster_name set_log_level
    set_vm_memory_high_watermark set_disk_free_limit sync_queue cancel_sync_queue version hash_password check_running
    check_local_alarms check_alarms check_port_listener check_port_connectivity check_virtual_hosts listeners
    memory_breakdown node_health_check
"""


def test_every_verb_that_runbooks_use_is_there() -> None:
    assert set(EXPECTED.split()) - set(VERBS) == set()


def test_no_verb_is_listed_twice() -> None:
    assert len(VERBS) == sum(len(verbs) for verbs in GROUPS.values())


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_the_example_of_a_verb_is_a_call_of_it(verb: Verb) -> None:
    words = shlex.split(verb.example.partition(" > ")[0])
    line = read(words, VERBS)
    assert line.verb == verb.name
    line.refuse_invalid()
    fewest, most = verb.arguments
    assert fewest <= len(line.arguments) <= most
    assert set(line.arguments) <= set(verb.columns) or not verb.columns


def test_the_document_has_a_line_with_an_example_for_every_verb() -> None:
    lines = (ROOT / "docs" / "ctl.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    expected = [f"| `{verb.name}` | {verb.summary} | `warren ctl {verb.example}` |" for verb in VERBS.values()]
    assert [row for row in rows if "`warren ctl " in row] == expected


@pytest.mark.parametrize("verb", [verb for verb in VERBS.values() if verb.columns], ids=lambda verb: verb.name)
def test_columns_make_values_of_things_that_have_no_optional_field(verb: Verb) -> None:
    """A server may leave out unknown fields: the column is then empty."""
    needed = {"type": "direct", "source": "", "destination": "q", "destination_type": "queue", "queue": {"name": "q"}}
    for name, source in verb.columns.items():
        value = source.value(needed)
        assert value is None or isinstance(value, str | int | dict | list | tuple), name
