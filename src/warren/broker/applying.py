"""Changes that were agreed upon become real: each kind of definition has somebody who makes and unmakes it.

Making and unmaking looks at nothing but the definition. What goes with something that goes (a queue's bindings, an
auto-delete exchange) was planned and stands among the changes itself, so nobody here works out consequences.

Not here: who plans (`broker.control` and the handlers of commands, `broker.vhost`), who agrees (`broker.agreement`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.errors import InvariantBroken
from warren.store.metadata import Definition, parts_of


@mypyc_attr(allow_interpreted_subclasses=True)
class Applier:
    """Makes and unmakes things of some kinds."""

    @abstractmethod
    def kinds(self) -> list[str]:
        """The first parts of the keys it knows."""

    @abstractmethod
    def put(self, definition: Definition, revision: int) -> None:
        """There is this from now on; if its key stood for something already, that is changed and stays the same thing.

        `revision` names a new thing, and is negative for one that does not outlive the node.
        """

    @abstractmethod
    def delete(self, parts: list[str]) -> None:
        """There is nothing under the key with this kind and these parts any more; no matter if there never was."""


@final
class Appliers(Applier):
    """All of them."""

    def __init__(self) -> None:
        # moves whenever anything was made or unmade
        self.version: int = 0
        self._by_kind: dict[str, Applier] = {}

    def add(self, applier: Applier) -> None:
        for kind in applier.kinds():
            self._by_kind[kind] = applier

    def kinds(self) -> list[str]:
        return list(self._by_kind)

    def put(self, definition: Definition, revision: int) -> None:
        self.put_under(definition.key(), definition, revision)

    def put_under(self, key: str, definition: Definition, revision: int) -> None:
        """The same, for whoever knows the key that it has."""
        self.version += 1
        self._of_kind(key[: key.index("/")]).put(definition, revision)

    def delete(self, parts: list[str]) -> None:
        self.version += 1
        self._of_kind(parts[0]).delete(parts)

    def delete_key(self, key: str) -> None:
        self.delete(parts_of(key))

    def _of_kind(self, kind: str) -> Applier:
        applier = self._by_kind.get(kind)
        if applier is None:
            raise InvariantBroken(f"nobody makes {kind}")
        return applier
