"""Where a cluster's metadata lies within etcd.

::

    /warren/CLUSTER/keys/KEY                     a key of the metadata, its value as it is
    /warren/CLUSTER/cluster/base                 the marker: a cluster lives here; what is added to etcd's revisions
    /warren/CLUSTER/cluster/last                 put by every commit: its modification is the last one's
    /warren/CLUSTER/cluster/created/N            which revisions created the keys that a lone node brought along
    /warren/CLUSTER/cluster/moving               a lone node is about to bring its keys along
    /warren/CLUSTER/cluster/proposals/NODE/N     what NODE proposed last, by which it learns how that ended

Revisions are etcd's own with the base added: above every one that the lone node, whose definitions were moved here,
ever gave. So a thing's name, the revision that created it, is never given twice.

Not here: who writes what when (`node.etcd.proposals`, `node.etcd.moving`).
"""

from warren.errors import ConfigError


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
