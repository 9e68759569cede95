"""What a node asks that wants to join, and what a member answers; JSON, behind a hello in which both proved themselves.

Not here: how the question gets there (`node.peers.joining`), what is done about it (`node.cluster.admission`).
"""

import json
from dataclasses import asdict, dataclass, field

from warren.model.settings import NODE_KINDS
from warren.node.cluster.cluster_file import MemberAddresses


class JoinRefused(Exception):
    """The other node will not have it, or what it said makes no sense; the sentence says why."""


@dataclass(frozen=True)
class JoinRequest:
    """Who wants to join, and what it will be."""

    name: str
    kind: str
    peer: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> "JoinRequest":
        try:
            fields = json.loads(data)
            request = JoinRequest(**{name: str(value) for name, value in fields.items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise JoinRefused("the request to join makes no sense to this version of Warren") from error
        if request.kind not in NODE_KINDS:
            raise JoinRefused("the request to join makes no sense to this version of Warren")
        return request


@dataclass(frozen=True)
class JoinAnswer:
    """What a new member needs to begin: which cluster that is, and whom there is; or why it may not."""

    cluster_id: str = ""
    members: dict[str, MemberAddresses] = field(default_factory=dict)
    refused: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> "JoinAnswer":
        try:
            fields = json.loads(data)
            if fields["refused"]:
                raise JoinRefused(str(fields["refused"]))
            members = {str(name): MemberAddresses(**where) for name, where in fields["members"].items()}
            return JoinAnswer(str(fields["cluster_id"]), members)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise JoinRefused("the answer makes no sense to this version of Warren") from error
