"""The fitness check of a node: reluctant while its mirrors get a backfill, fit while they only wait for one."""

from collections.abc import Iterator

import pytest

from tests.admin.test_fitness import asked
from tests.admin.test_mirrored_queues import LARGE, order, publish, row, synced
from tests.admin.three_nodes import Trio, eventually

COUNT = 40
FIT = (200, "fit", [])
CATCHING_UP = (503, "reluctant", ["catching_up"])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    directory = tmp_path_factory.mktemp("pair")
    (directory / "nodes.conf").write_text("mirroring_sync_max_throughput = 1MB\n")
    made = Trio(directory / "cluster", "--nodes", "2", "--config", str(directory / "nodes.conf"))
    yield made
    made.run("down")


def mirror(pair: Trio, queue: str, **more: str) -> None:
    policy = {"pattern": f"^{queue}$", "definition": {"ha-mode": "all", **more}, "apply-to": "queues"}
    assert pair[0].api.call("PUT", f"policies/%2F/{queue}", policy).status in (201, 204)
    eventually(lambda: row(pair[0], queue), lambda told: told.get("slave_nodes") == [pair.names[1]])


def test_a_mirror_that_is_synchronised_by_itself_is_a_reason(pair: Trio) -> None:
    publish(pair[0], "automatic", COUNT, LARGE)
    mirror(pair, "automatic", **{"ha-sync-mode": "automatic"})
    eventually(lambda: asked(pair[1].api), lambda found: found == CATCHING_UP)
    [reason] = pair[1].api.get("warren/fitness", user=None).json["reasons"]
    assert reason["sentence"] == "Its mirrors of a queue are being synchronised."
    assert asked(pair[0].api) == FIT
    eventually(lambda: synced(pair[0], "automatic"), lambda names: names == [pair.names[1]])
    eventually(lambda: asked(pair[1].api), lambda found: found == FIT)


def test_a_mirror_that_waits_for_an_order_is_none_until_it_comes(pair: Trio) -> None:
    publish(pair[0], "manual", COUNT, LARGE)
    mirror(pair, "manual")
    # new messages come to it all the same
    publish(pair[0], "manual", 1, b"new")
    assert asked(pair[1].api) == FIT
    assert synced(pair[0], "manual") == []
    assert order(pair[0], "manual", "sync") == 204
    eventually(lambda: asked(pair[1].api), lambda found: found == CATCHING_UP)
    assert order(pair[0], "manual", "cancel_sync") == 204
    eventually(lambda: asked(pair[1].api), lambda found: found == FIT)
    assert synced(pair[0], "manual") == []
