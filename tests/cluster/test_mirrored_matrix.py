"""Five nodes with mirrored queues, cut into two halves and into different overlapping majorities.

`bench/matrix` has more faults, and longer ones.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.matrix import HOSTS, PAUSES, Trouble, go_through
from tests.cluster.mirrored import mirror_everything
from tests.cluster.namespace_trio import NamespaceTrio, namespace_trio

pytestmark = pytest.mark.timeout(400)

HOLD_S = 10.0


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceTrio]:
    choices = dict.fromkeys(HOSTS, "cluster_partition_handling = pause_minority\n")
    with namespace_trio(tmp_path_factory.mktemp("matrix"), choices) as made:
        mirror_everything(made)
        yield made


@pytest.mark.parametrize("trouble", PAUSES[1:3], ids=lambda trouble: trouble.name)
def test_no_promise_is_broken(five: NamespaceTrio, trouble: Trouble) -> None:
    seen = go_through(five, trouble, HOLD_S)
    assert seen.complaints == ()
    assert seen.confirmed > 0
