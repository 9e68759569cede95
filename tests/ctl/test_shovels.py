"""`shovel_status`, which has a time and a state in each line: columns and words are rabbitmqctl's."""

import json
import time
from typing import Any

from tests.ctl.conftest import Ctl

DEADLINE_S = 30.0


def define(ctl: Ctl, name: str, **definition: object) -> None:
    value = {key.replace("_", "-"): each for key, each in definition.items()}
    assert ctl("set_parameter", "shovel", name, json.dumps(value)).code == 0


def awaited(ctl: Ctl, name: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        rows = json.loads(ctl("shovel_status", "--formatter", "json").out)
        (row,) = [each for each in rows if each["name"] == name]
        if row["state"] == state:
            return dict(row)
        assert time.monotonic() < deadline, row
        time.sleep(0.05)


def test_a_running_shovel_is_listed_in_the_columns_of_rabbitmqctl(ctl: Ctl) -> None:
    define(ctl, "ctl-runs", src_uri="amqp://", src_queue="ctl.from", dest_uri="amqp://", dest_queue="ctl.to")
    row = awaited(ctl, "ctl-runs", "running")
    assert row.pop("last_changed")
    assert row == {
        "destination": "amqp://",
        "destination_protocol": "amqp091",
        "destination_queue": "ctl.to",
        "name": "ctl-runs",
        "source": "amqp://",
        "source_protocol": "amqp091",
        "source_queue": "ctl.from",
        "state": "running",
        "termination_reason": "",
        "type": "dynamic",
        "vhost": "/",
    }
    said = ctl("shovel_status")
    assert said.out.splitlines()[:2] == [
        "Shovel status on node warren@here",
        "destination\tdestination_protocol\tdestination_queue\tlast_changed\tname\tsource\tsource_protocol\t"
        "source_queue\tstate\ttermination_reason\ttype\tvhost",
    ]
    assert ctl("delete_shovel", "ctl-runs").code == 0
    assert ctl("shovel_status").out == "Shovel status on node warren@here\n"


def test_the_reason_of_a_broken_shovel_is_reported(ctl: Ctl) -> None:
    define(ctl, "ctl-breaks", src_uri="amqp://", src_exchange="nosuch", dest_uri="amqp://", dest_queue="ctl.to")
    row = awaited(ctl, "ctl-breaks", "terminated")
    assert row["termination_reason"] == (
        "source: the broker closed channel 1: 404 NOT_FOUND - no exchange 'nosuch' in vhost '/'"
    )
    assert (row["source"], row["destination"]) == ("", "")
    assert ctl("delete_shovel", "ctl-breaks").code == 0
