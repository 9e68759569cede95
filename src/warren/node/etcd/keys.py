"""Where a cluster's metadata lies within etcd, and how its revisions are numbered.

::

    /warren/CLUSTER/keys/KEY                     a key of the metadata, its value as it is
    /warren/CLUSTER/cluster/base                 the marker: a cluster lives here; the lone node's last revision
    /warren/CLUSTER/cluster/last                 put by every commit: its modification is the last one's
    /warren/CLUSTER/cluster/created/N            which revisions created the keys that a lone node brought along
    /warren/CLUSTER/cluster/moving               a lone node is about to bring its keys along
    /warren/CLUSTER/cluster/proposals/NODE/N     what NODE proposed last, by which it learns how that ended

Etcd gives all changes of a transaction one revision. The store's are so far apart that each thing that a transaction
makes has a name of its own below them (`store.naming.name_of`), and begin above every one that the lone node, whose
definitions were moved here, ever gave. So a name is never given twice.

Not here: who writes what when (`node.etcd.proposals`, `node.etcd.moving`).
"""

from warren.errors import ConfigError
from warren.store.naming import NAMES_A_REVISION

NEVER = -1


class KeySpace:
    """The keys of one cluster."""

    def __init__(self, cluster: str) -> None:
        if not cluster or "/" in cluster:
            raise ConfigError(f"'{cluster}' cannot be the name of a cluster: it must have no slash, and not be empty")
        self.all = f"/warren/{cluster}/".encode()
        self.keys = self.all + b"keys/"
        self.base = self.all + b"cluster/base"
        self.last = self.all + b"cluster/last"
        self.moving = self.all + b"cluster/moving"
        self.created = self.all + b"cluster/created/"

    def of(self, key: str) -> bytes:
        return self.keys + key.encode("utf-8", "surrogateescape")

    def name(self, key: bytes) -> str:
        """The metadata's name of one of its keys."""
        return key[len(self.keys) :].decode("utf-8", "surrogateescape")

    def created_part(self, part: int) -> bytes:
        return self.created + b"%d" % part

    def proposal(self, node: str, slot: int) -> bytes:
        return self.all + f"cluster/proposals/{node}/{slot}".encode()


class Numbering:
    """Between etcd's revisions and the store's; the lone node's ended with `last`."""

    def __init__(self, last: int = 0) -> None:
        self._before = last // NAMES_A_REVISION + 1

    def of_store(self, etcd_revision: int) -> int:
        return (etcd_revision + self._before) * NAMES_A_REVISION

    def of_etcd(self, revision: int) -> int:
        """The last one of etcd's up to there; 0 if there is none."""
        return max(revision // NAMES_A_REVISION - self._before, 0)

    def compared(self, revision: int) -> int:
        """What etcd is to compare with: 0 is a key that is missing, `NEVER` what no key was ever changed with."""
        if revision == 0:
            return 0
        etcd_revision = self.of_etcd(revision)
        return etcd_revision if etcd_revision and self.of_store(etcd_revision) == revision else NEVER
