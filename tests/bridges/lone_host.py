"""A host for bridges that are tested without a node: the test sets its answers.

Not here: a node that is a host (`test_node_host`).
"""

from collections.abc import Callable

from warren.bridges.bridge import BridgeRun
from warren.bridges.host import FederatedObject, LocalBinding
from warren.bridges.settlement import BridgeStats
from warren.broker.policies.parameters import Parameter
from warren.client.connection import Connection


class KeptLog:
    """Remembers every line."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    warning = info
    error = info

    def of(self, event: str) -> list[dict[str, object]]:
        return [fields for each, fields in self.lines if each == event]

    def doubted_ids(self) -> set[str]:
        """The message ids that were logged as in doubt."""
        said = ",".join(str(fields["message_ids"]) for fields in self.of("bridge.doubted"))
        return {each for each in said.split(",") if each}


class LoneHost:
    """Alone in its cluster, without definitions."""

    def __init__(self) -> None:
        self.node_name = "lone@test"
        self.cluster_name = "lone@test"
        self.log = KeptLog()
        self.defined: list[Parameter] = []
        self.responsible = True
        self._callbacks: list[Callable[[], None]] = []

    def parameters(self, component: str) -> list[Parameter]:
        return [each for each in self.defined if each.component == component]

    def global_parameter(self, name: str) -> object:
        return None

    def federated(self) -> list[FederatedObject]:
        return []

    def bindings_of(self, vhost: str, exchange: str) -> list[LocalBinding]:
        return []

    def wants_more(self, vhost: str, queue: str) -> bool:
        return True

    def responsible_for(self, key: str) -> bool:
        return self.responsible

    def has_user(self, name: str) -> bool:
        return False

    def is_administrator(self, user: str) -> bool:
        return False

    async def connect_here(self, vhost: str, name: str, user: str) -> Connection:
        raise AssertionError("there is no broker around this host")

    async def forget(self, parameter: Parameter) -> None:
        self.defined = [each for each in self.defined if each is not parameter]

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def change(self) -> None:
        for callback in list(self._callbacks):
            callback()


def life_of(host: LoneHost) -> BridgeRun:
    return BridgeRun(host, {"kind": "test", "name": "test"}, BridgeStats(), lambda facts: None)
