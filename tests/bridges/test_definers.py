"""A bridge that enters its own broker has the permissions of the user who defined it, and no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.shovels.conftest import Shoveller
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from warren.client import Message, blocking

POLICYMAKER = "pol"


class World:
    """A node with a queue `secret` that the policymaker may not read."""

    def __init__(self, node: NodeProcess) -> None:
        host, port = node.addresses["http"]
        self.url = f"http://{host}:{port}"
        self.amqp = url_of(node)
        self.guest = Shoveller(self.url, self.amqp)
        self.pol = Shoveller(self.url, self.amqp, f"{POLICYMAKER}:{POLICYMAKER}")

    def restore(self) -> None:
        """The policymaker with permissions for names that begin with `mine` alone."""
        body = {"password": POLICYMAKER, "tags": "policymaker"}
        assert self.guest.call("PUT", "users", POLICYMAKER, body=body)[0] in (201, 204)
        self.permit("^mine")

    def permit(self, pattern: str) -> None:
        body = {"configure": pattern, "write": "^(mine|amq.default)", "read": pattern}
        assert self.guest.call("PUT", "permissions", "/", POLICYMAKER, body=body)[0] in (201, 204)

    def exchange_to_secret(self, name: str) -> None:
        with blocking.connect(self.amqp) as connection:
            channel = connection.channel()
            channel.declare_exchange(name, "fanout", durable=True)
            channel.bind_queue("secret", name)

    def refused(self, definition: dict[str, object]) -> str:
        status, told = self.pol.call("PUT", "parameters", "shovel", "/", "s", body={"value": definition})
        assert status == 400, told
        return str(told["reason"])


@pytest.fixture
def world(near: NodeProcess) -> Iterator[World]:
    world = World(near)
    world.restore()
    world.guest.fill("secret", 1)
    yield world
    for name in ("s", "up"):
        for component in ("shovel", "federation-upstream", "federation-upstream-set"):
            world.guest.call("DELETE", "parameters", component, "/", name)
    world.guest.call("DELETE", "policies", "/", "mine")
    world.guest.call("DELETE", "exchanges", "/", "others")
    world.guest.forget_queues("secret", "mine", "mine.too")


def shovel(source: str, destination: str, uri: str = "amqp://") -> dict[str, object]:
    return {"src_uri": uri, "src_queue": source, "dest_uri": "amqp://", "dest_queue": destination, "reconnect_delay": 1}


def test_a_shovel_does_not_read_a_queue_that_its_definer_may_not_read(world: World) -> None:
    world.pol.define("s", **shovel("secret", "mine"))
    assert "access to queue 'secret' in vhost '/' refused for user 'pol'" in world.guest.until_reason("s")
    assert world.guest.length("secret") == 1


def test_a_shovel_does_not_write_where_its_definer_may_not_write(world: World) -> None:
    world.exchange_to_secret("others")
    world.guest.fill("mine", 1)
    destination = {"dest_uri": "amqp://", "dest_exchange": "others"}
    world.pol.define("s", src_uri="amqp://", src_queue="mine", reconnect_delay=1, **destination)
    assert "access to exchange 'others' in vhost '/' refused for user 'pol'" in world.guest.until_reason("s")
    assert world.guest.length("secret") == 1


def test_a_shovel_between_queues_of_its_definer_runs_as_that_user(world: World) -> None:
    world.guest.fill("mine", 3)
    world.pol.define("s", **shovel("mine", "mine.too"))
    world.guest.until_state("s", "running")
    users = {row["user"] for row in world.guest.call("GET", "connections")[1]}
    assert POLICYMAKER in users
    assert len(world.guest.take("mine.too", 3)) == 3


def test_a_definer_who_is_no_administrator_cannot_name_another_user(world: World) -> None:
    definition = {"src-uri": "amqp://guest@/%2F", "src-queue": "secret", "dest-uri": "amqp://", "dest-queue": "mine"}
    assert 'user "pol" may not connect as user "guest"' in world.refused(definition)
    world.guest.define("s", **shovel("secret", "mine", "amqp://pol@/%2F"))
    assert "refused for user 'pol'" in world.guest.until_reason("s")


def test_a_shovel_whose_definer_is_deleted_stops_and_says_so(world: World) -> None:
    world.pol.define("s", **shovel("mine", "mine.too"))
    world.guest.until_state("s", "running")
    assert world.guest.call("DELETE", "users", POLICYMAKER)[0] == 204
    row = world.guest._until_row("s", lambda row: "does not exist" in row.get("reason", ""))
    assert "it was defined by the user 'pol', who does not exist: another user has to set it again" in row["reason"]
    world.guest.define("s", **shovel("mine", "mine.too"))
    world.guest.until_state("s", "running")


def test_a_permission_that_the_definer_loses_or_gets_counts_at_the_next_connection(world: World) -> None:
    world.permit("^(mine|secret)")
    world.pol.define("s", **shovel("secret", "mine"))
    world.guest.until_state("s", "running")
    world.guest.take("mine", 1)
    world.permit("^mine")
    assert world.guest.call("DELETE", "shovels", "vhost", "/", "s", "restart")[0] in (202, 204)
    assert "access to queue 'secret'" in world.guest.until_reason("s")
    world.permit("^(mine|secret)")
    world.guest.until_state("s", "running")


def test_files_of_the_machine_are_for_administrators_and_all_look_alike(world: World, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("no certificate")
    told = {
        world.refused(
            {
                "src-uri": f"amqps://127.0.0.1:9?{option}={tmp_path}/{file}",
                "src-queue": "mine",
                "dest-uri": "amqp://",
                "dest-queue": "mine.too",
            }
        )
        for option in ("cacertfile", "certfile", "keyfile")
        for file in ("there", "missing")
    }
    assert told == {"Validation failed\n\nonly an administrator may name files of this machine in a URI\n"}


def test_a_definer_who_is_no_administrator_any_more_loses_the_files(world: World, tmp_path: Path) -> None:
    body = {"password": POLICYMAKER, "tags": "administrator"}
    assert world.guest.call("PUT", "users", POLICYMAKER, body=body)[0] == 204
    world.pol.define("s", **shovel("mine", "mine.too", f"amqps://127.0.0.1:9?cacertfile={tmp_path}/missing"))
    assert "cannot be used" in world.guest.until_reason("s") or "missing" in world.guest.until_reason("s")
    world.restore()
    world.guest._until_row("s", lambda row: "only an administrator may name files" in row.get("reason", ""))


def test_a_federated_exchange_gets_messages_only_if_the_definer_of_the_upstream_may_write_to_it(
    world: World, far: NodeProcess
) -> None:
    world.exchange_to_secret("others")
    value = {"uri": url_of(far), "reconnect-delay": 1}
    assert world.pol.call("PUT", "parameters", "federation-upstream", "/", "up", body={"value": value})[0] == 201
    body = {"pattern": "^others$", "apply-to": "exchanges", "definition": {"federation-upstream": "up"}}
    assert world.pol.call("PUT", "policies", "/", "mine", body=body)[0] == 201
    world.guest.until_linked("others")
    with blocking.connect(url_of(far)) as connection:
        connection.channel(confirms=True).publish(Message(b"forged"), "others")
    seen: list[str] = []

    def is_refused() -> bool:
        seen[:] = [str(row.get("error")) for row in world.guest.links("others")]
        return any("access to exchange 'others' in vhost '/' refused for user 'pol'" in error for error in seen)

    eventually(is_refused, lambda: str(seen))
    assert world.guest.length("secret") == 1


def test_a_federated_queue_does_not_take_from_a_queue_of_this_broker_that_the_definer_may_not_read(
    world: World,
) -> None:
    value = {"uri": "amqp:///%2F", "queue": "secret", "reconnect-delay": 1}
    assert world.pol.call("PUT", "parameters", "federation-upstream", "/", "up", body={"value": value})[0] == 201
    body = {"pattern": "^mine$", "apply-to": "queues", "definition": {"federation-upstream": "up"}}
    assert world.pol.call("PUT", "policies", "/", "mine", body=body)[0] == 201
    world.guest.fill("mine", 0)
    eventually(
        lambda: "refused for user 'pol'" in str(world.guest.links("mine")), lambda: str(world.guest.links("mine"))
    )


def test_a_set_does_not_lead_an_upstream_of_an_administrator_to_another_queue(world: World) -> None:
    value = {"uri": "amqp:///%2F", "queue": "mine.too", "reconnect-delay": 1}
    assert world.guest.call("PUT", "parameters", "federation-upstream", "/", "up", body={"value": value})[0] == 201
    chosen = {"value": [{"upstream": "up", "queue": "secret"}]}
    assert world.pol.call("PUT", "parameters", "federation-upstream-set", "/", "up", body=chosen)[0] == 201
    body = {"pattern": "^mine$", "apply-to": "queues", "definition": {"federation-upstream-set": "up"}}
    assert world.pol.call("PUT", "policies", "/", "mine", body=body)[0] == 201
    world.guest.fill("mine", 0)
    eventually(
        lambda: "changes queue of the upstream 'up'" in str(world.guest.links("mine")),
        lambda: str(world.guest.links("mine")),
    )
    assert world.guest.call("PUT", "parameters", "federation-upstream-set", "/", "up", body=chosen)[0] == 204
    world.guest.until_linked("mine")


def test_an_export_names_definers_and_an_import_keeps_them(world: World) -> None:
    world.pol.define("s", **shovel("secret", "mine"))
    definitions = world.guest.call("GET", "definitions")[1]
    [row] = [row for row in definitions["parameters"] if row["name"] == "s"]
    assert row["definer"] == POLICYMAKER
    world.guest.call("DELETE", "parameters", "shovel", "/", "s")
    assert world.guest.call("POST", "definitions", body={"parameters": [row]})[0] == 204
    assert "refused for user 'pol'" in world.guest.until_reason("s")
    del row["definer"]
    assert world.guest.call("POST", "definitions", body={"parameters": [row]})[0] == 204
    world.guest.until_state("s", "running")
    [row] = [row for row in world.guest.call("GET", "definitions")[1]["parameters"] if row["name"] == "s"]
    assert row["definer"] == "guest"
