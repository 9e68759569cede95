"""Which mirrors of a node are being synchronised."""

from types import SimpleNamespace
from typing import Any, cast

from warren.admin.resources.health import STALLED_AFTER_MS, MirrorSyncMonitor
from warren.broker.replication.mirror import FOLLOWING


def test_a_mirror_counts_while_more_comes_to_it_and_no_longer_than_that() -> None:
    upstream = SimpleNamespace(acked_bytes=0)
    mirror = SimpleNamespace(whole=False, state=FOLLOWING)
    replica = SimpleNamespace(queue_id=7, master_replica=None, mirror=mirror, upstream=upstream)
    replica_sets = SimpleNamespace(replicas=lambda: [replica])
    broker = cast("Any", SimpleNamespace(cluster=SimpleNamespace(replica_sets=replica_sets)))
    arrivals = MirrorSyncMonitor()
    assert arrivals.under_way(broker, 0) == 0
    upstream.acked_bytes = 65_536
    assert arrivals.under_way(broker, 1) == 1
    assert arrivals.under_way(broker, STALLED_AFTER_MS) == 1
    assert arrivals.under_way(broker, STALLED_AFTER_MS + 1) == 0
    upstream.acked_bytes += 1
    assert arrivals.under_way(broker, STALLED_AFTER_MS + 2) == 1
