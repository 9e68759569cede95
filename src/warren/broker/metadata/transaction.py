"""Metadata transactions: changes of definitions that belong together, made only if the relied-on keys are unchanged.

A transaction is built from the current definitions and changes nothing by itself. A backend decides: that of a node
alone at once, that of a cluster through the shared store, which refuses a transaction if a key it relies on has
changed meanwhile. Then it is built again. A transaction takes effect as a whole, unless it is too large for that
(`broker.metadata.proposal`).

A key may also be *touched*: its value stays, but transactions that rely on it become outdated. A binding touches both
its ends, so that a delete of a queue, or of an auto-delete exchange, knows all bindings.

Invariants: a transaction relies on every key it changes or touches, and touches no key that it changes. Of several
changes of one key the last one counts, and has the last place.

Not here: keys and values (`broker.metadata.store`), backends and appliers (`broker.metadata.backend`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.broker.metadata.store import Definition
from warren.errors import PRECONDITION_FAILED, ChannelFault


@mypyc_attr(allow_interpreted_subclasses=True)
class TransactionWaiter:
    """Is told the outcome of a transaction, once, and never within `MetadataBackend.submit`."""

    @abstractmethod
    def committed(self) -> None:
        """The transaction took effect and is visible."""

    @abstractmethod
    def outdated(self) -> None:
        """A relied-on key has changed, and the change is visible: build the transaction again."""

    @abstractmethod
    def failed(self, reason: str) -> None:
        """The transaction is not known to have taken effect, for this reason."""


def transaction_failed(reason: str) -> ChannelFault:
    """The fault for a client whose request failed."""
    return ChannelFault(PRECONDITION_FAILED, f"the nodes of the cluster could not agree: {reason}")


@final
class ProposedChange:
    """The next definition of a key; None deletes it.

    `kept`: whether a node that is alone stores the definition.
    """

    def __init__(self, key: str, definition: Definition | None, kept: bool) -> None:
        self.key: str = key
        self.definition: Definition | None = definition
        self.kept: bool = kept


@final
class MetadataTransaction:
    """Changes by key, in the order in which they are made."""

    def __init__(self) -> None:
        self.changes: dict[str, ProposedChange] = {}
        # keys that must not change first
        self.relied_on: dict[str, None] = {}
        # keys that keep their values and count as changed
        self.touched: dict[str, None] = {}
        # prefixes under which no key may be created or changed first
        self.relied_on_under: dict[str, None] = {}
        # how many of its changes are known to have taken effect, if it is carried out in parts
        self.made: int = 0

    def put(self, definition: Definition) -> None:
        self._change(ProposedChange(definition.key(), definition, definition.kept()))

    def delete(self, key: str, kept: bool = True) -> None:
        self._change(ProposedChange(key, None, kept))

    def rely_on(self, key: str) -> None:
        """The transaction is outdated if this key changes first."""
        self.relied_on[key] = None

    def rely_on_all(self, prefix: str) -> None:
        """The transaction is outdated if a key with this prefix is created or changed first."""
        self.relied_on_under[prefix] = None

    def touch(self, key: str) -> None:
        """Count this key as changed though its value stays, and rely on it."""
        self.rely_on(key)
        if key not in self.changes:
            self.touched[key] = None

    def change_of(self, key: str) -> ProposedChange | None:
        """The change of a key, if any."""
        return self.changes.get(key)

    def _change(self, change: ProposedChange) -> None:
        self.changes.pop(change.key, None)
        self.changes[change.key] = change
        self.touched.pop(change.key, None)
        self.rely_on(change.key)
