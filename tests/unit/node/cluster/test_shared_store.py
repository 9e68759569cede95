"""A member announces itself once, also after repeated requests, and not when it rests."""

from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from tests.support.deadlines import in_event_loop
from warren.admin.background import BackgroundTasks
from warren.broker.metadata.cluster_definitions import LivenessDefinition
from warren.node.cluster.metadata_store import ClusterMetadataStore
from warren.node.config.cluster_settings import EtcdSettings

NAME = "a@host"


class PretendHolding:
    """Keeps a key until it is released; the first waiters do not get it."""

    def __init__(self, value: bytes, failures: int) -> None:
        self.value = value
        self.released = False
        self._failures = failures

    async def held(self) -> None:
        if self._failures:
            self._failures -= 1
            raise ConnectionError("the metadata store does not answer")

    async def release(self) -> None:
        self.released = True


class PretendStore:
    """Has as many holdings as were made, and each of them is there until it is released."""

    def __init__(self, failures: int) -> None:
        self.made: list[PretendHolding] = []
        self._failures = failures

    def hold(self, key: str, value: bytes, ttl_s: int, tasks: BackgroundTasks) -> PretendHolding:
        self.made.append(PretendHolding(value, self._failures))
        return self.made[-1]

    def held(self) -> list[bytes]:
        return [holding.value for holding in self.made if not holding.released]


def shared_with(store: PretendStore, path: Path) -> ClusterMetadataStore:
    log = structlog.get_logger()
    shared = ClusterMetadataStore(
        EtcdSettings(), "localhost:25672", str(path / "etcd"), NAME, b"", log, BackgroundTasks(log)
    )
    shared.store = cast("Any", store)
    return shared


def alive(run: int) -> bytes:
    return LivenessDefinition(NAME, run).value()


@in_event_loop
async def test_a_node_that_rests_does_not_live_though_it_had_to_ask_often(tmp_path: Path) -> None:
    store = PretendStore(failures=3)
    shared = shared_with(store, tmp_path)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await shared.live(7)
    await shared.live(7)
    assert store.held() == [alive(7)]
    await shared.rest()
    assert store.held() == []


@in_event_loop
async def test_a_node_that_has_rested_lives_again_and_another_run_takes_the_place_of_the_one_before(
    tmp_path: Path,
) -> None:
    store = PretendStore(failures=0)
    shared = shared_with(store, tmp_path)
    await shared.live(7)
    await shared.rest()
    await shared.live(7)
    assert store.held() == [alive(7)]
    await shared.live(8)
    assert store.held() == [alive(8)]
