"""What an operator may change of the process around the broker while it runs.

Changes hold until the node stops; the configuration file is not touched.

Not here: how it is done (`node.control`), the paths (`resources.control`), what is asked of the broker (`admin.desk`).
"""

from collections.abc import Mapping
from typing import Protocol

LEVELS = ("debug", "info", "warning", "error", "critical", "none")
"""Of log lines, from all of them to none."""


class ForgettingRefused(Exception):
    """The node stays a member; `code` is RabbitMQ's word for the reason, if it has one."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class NodeControl(Protocol):
    """The process, to be changed."""

    def stop(self, user: str) -> None:
        """Say goodbye to every client and end, once the caller was answered."""

    def stop_app(self, user: str) -> None:
        """The same, but the process stays, and answers nothing but orders about its membership."""

    def drain(self, user: str, draining: bool) -> None:
        """Be known to load balancers as one that wants no new clients, or as one that does. Whoever is here stays."""

    async def forget_node(self, user: str, name: str) -> None:
        """Remove a node that does not run from the cluster. `ForgettingRefused` if that cannot be."""

    def settings(self) -> Mapping[str, object]:
        """The settings in force, by their keys in the configuration file; no secrets."""

    def set_setting(self, key: str, value: str) -> None:
        """Change one. `KeyError` if it cannot be changed, `ValueError` with what it must be if the value is wrong."""

    def log_levels(self) -> dict[str, str]:
        """By category."""

    def set_log_levels(self, levels: Mapping[str, str]) -> None:
        """Of categories that are known; `default` is all of them but for those that are named beside it."""
