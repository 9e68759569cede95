"""The node's record of its cluster: `cluster.json`, and `FOUNDING` while a cluster is being founded; and the join
messages.

Without `cluster.json`, the directory belongs to a node alone, with its definitions in its own database. With it, the
definitions are in the cluster's store and the database is ignored. The file is replaced atomically, and written after
everything it promises is true. So an interrupted founding or join leaves a node alone or a member, never anything in
between.

An external store keeps the definitions of a founding that died before the file was written. `FOUNDING` holds the proof
by which the node recognises them as its own and may delete them.

A join is one question and one answer, in JSON, after a handshake in which both sides proved the cookie.

Not here: founding (`node.cluster.agent`), joining (`node.cluster.join`), the exchange itself (`node.peers.requests`).
"""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from warren.broker.model.settings import NODE_KINDS
from warren.errors import StoreError
from warren.node.disk.file_io import replace_file, sync_directory
from warren.node.disk.file_names import CLUSTER, FOUNDING

VERSION = 1


@dataclass(frozen=True)
class MemberAddresses:
    """Addresses of another node, each as HOST:PORT; `store` is empty for one without an etcd member."""

    peer: str
    store: str = ""


@dataclass(frozen=True)
class ClusterFacts:
    """What a member knows when it starts, before it has asked any other.

    `enlisted`: the cluster lists this node as a member. If it does so no longer, the node was removed. `renaming`: the
    node's new name. Under another name it must not run, because some of its queues may have the new name already.
    """

    cluster_id: str
    kind: str
    members: dict[str, MemberAddresses] = field(default_factory=dict)
    enlisted: bool = False
    renaming: str = ""

    def store_addresses(self) -> list[str]:
        """The addresses of the store."""
        return [member.store for member in self.members.values() if member.store]


class ClusterFile:
    """The file of one data directory."""

    def __init__(self, data_dir: str) -> None:
        self.path = os.path.join(data_dir, CLUSTER)

    def read(self) -> ClusterFacts | None:
        """None if the node is alone; `StoreError` if the file cannot be parsed."""
        try:
            with open(self.path, encoding="utf-8") as file:
                return _facts_of(json.load(file))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{self.path} is damaged; take it from a backup, or reset the node") from error

    def write(self, facts: ClusterFacts) -> None:
        text = json.dumps({"v": VERSION, **asdict(facts)}, indent=1, sort_keys=True)
        replace_file(self.path, text.encode() + b"\n")

    def remove(self) -> None:
        """The node is no longer a member of a cluster."""
        _remove(self.path)


class FoundingFile:
    """The file exists from before the first definition moves into the store until `cluster.json` is written."""

    def __init__(self, data_dir: str) -> None:
        self._path = os.path.join(data_dir, FOUNDING)

    def read(self) -> bytes:
        """The proof of an unfinished founding; empty if there is none."""
        try:
            with open(self._path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def write(self, proof: bytes) -> None:
        replace_file(self._path, proof)

    def remove(self) -> None:
        _remove(self._path)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
        sync_directory(os.path.dirname(path))


def _facts_of(document: dict[str, Any]) -> ClusterFacts:
    if document["v"] != VERSION:
        raise ValueError("another version")
    members = {name: MemberAddresses(**addresses) for name, addresses in document["members"].items()}
    if document["kind"] not in NODE_KINDS:
        raise ValueError("no kind of node")
    enlisted, renaming = bool(document["enlisted"]), str(document.get("renaming", ""))
    return ClusterFacts(str(document["cluster_id"]), document["kind"], members, enlisted, renaming)


class JoinRefused(Exception):
    """The other node refuses, or its answer is invalid; the text says why."""


@dataclass(frozen=True)
class ClusterJoinRequest:
    """The node that wants to join, and its kind."""

    name: str
    kind: str
    peer: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> "ClusterJoinRequest":
        try:
            fields = json.loads(data)
            request = ClusterJoinRequest(**{name: str(value) for name, value in fields.items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise JoinRefused("this version of Warren does not understand the request to join") from error
        if request.kind not in NODE_KINDS:
            raise JoinRefused("this version of Warren does not understand the request to join")
        return request


@dataclass(frozen=True)
class ClusterJoinAnswer:
    """What a new member needs: the cluster and its members; or the reason of a refusal."""

    cluster_id: str = ""
    members: dict[str, MemberAddresses] = field(default_factory=dict)
    refused: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> "ClusterJoinAnswer":
        try:
            fields = json.loads(data)
            if fields["refused"]:
                raise JoinRefused(str(fields["refused"]))
            members = {str(name): MemberAddresses(**where) for name, where in fields["members"].items()}
            return ClusterJoinAnswer(str(fields["cluster_id"]), members)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise JoinRefused("this version of Warren does not understand the answer") from error
