"""What a node remembers of its cluster, beside its other data: `cluster.json`, and `FOUNDING` before that is there.

A data directory without this file is that of a node alone, whose definitions are in its own database. With it, they
are in the cluster's store, and the database has nothing to say. The file appears, and changes, complete or not at all;
it is written once everything it promises is there. So whatever interrupts a node that founds a cluster or joins one, it
is afterwards a node alone or a member, and nothing in between.

A store that somebody else runs keeps what a founding has brought there, if the node dies before the file is written.
`FOUNDING` has the proof by which the node recognises that as its own, and may take it back.

Not here: founding (`node.cluster.agent`) and joining (`node.cluster.join`).

What a node asks that wants to join, and what a member answers; JSON, behind a hello in which both proved themselves.

Not here: how the question gets there (`node.peers.requests`), what is done about it (`node.cluster.admission`).
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
    """Where another node is found, each as HOST:PORT; `store` is empty for one without a part of the store."""

    peer: str
    store: str = ""


@dataclass(frozen=True)
class ClusterFacts:
    """What a member knows when it starts, before it has asked anybody.

    `enlisted`: the cluster has this node among its members. If it has it not any more, it was removed.
    `renaming`: the name that this node is about to get; with another one it must not run, because some of its queues
    may be that one's already.
    """

    cluster_id: str
    kind: str
    members: dict[str, MemberAddresses] = field(default_factory=dict)
    enlisted: bool = False
    renaming: str = ""

    def store_addresses(self) -> list[str]:
        """Where the store may be reached."""
        return [member.store for member in self.members.values() if member.store]


class ClusterFile:
    """The file of one data directory."""

    def __init__(self, data_dir: str) -> None:
        self.path = os.path.join(data_dir, CLUSTER)

    def read(self) -> ClusterFacts | None:
        """Nothing if the node is alone; a `StoreError` if the file cannot be understood."""
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
        """The node is alone from here on."""
        _remove(self.path)


class FoundingFile:
    """That of one data directory: there from before anything moves into the store until `cluster.json` is there."""

    def __init__(self, data_dir: str) -> None:
        self._path = os.path.join(data_dir, FOUNDING)

    def read(self) -> bytes:
        """The proof of a founding that was not finished; empty if there was none."""
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
    """The other node will not have it, or what it said makes no sense; the sentence says why."""


@dataclass(frozen=True)
class ClusterJoinRequest:
    """Who wants to join, and what it will be."""

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
            raise JoinRefused("the request to join makes no sense to this version of Warren") from error
        if request.kind not in NODE_KINDS:
            raise JoinRefused("the request to join makes no sense to this version of Warren")
        return request


@dataclass(frozen=True)
class ClusterJoinAnswer:
    """What a new member needs to begin: which cluster that is, and whom there is; or why it may not."""

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
            raise JoinRefused("the answer makes no sense to this version of Warren") from error
