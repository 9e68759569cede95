"""Whoever waits for others to agree to something.

Not here: what is planned (`broker.metadata.transaction`), who agrees (`broker.metadata.backend`).

Changes of definitions that belong together, made only if things are as they were thought to be.

Whoever wants something changed looks at what there is and writes down what will be different, and changes nothing by
that. Whether it comes about is agreed elsewhere: by a node alone at once, by the nodes of a cluster in their common
store, which refuses a plan if a key it relies on has changed meanwhile. Then it is made anew, from what there is then.
All of it comes about at once, unless it is too large for that (`broker.metadata.proposal`).

A key may also be *touched*: its value stays, but whoever relies on it must look again. A binding touches both its ends,
so that nobody deletes a queue, or an exchange that lives by its bindings, without knowing of all of them.

Invariants: a plan relies on every key it changes or touches, and touches none that it changes; of several changes of
one key the last one counts, and stands where it was planned.

Not here: keys and values (`broker.metadata.store`), what a change does (`broker.metadata.backend`), agreeing
(`broker.metadata.backend`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.broker.metadata.store import Definition
from warren.errors import PRECONDITION_FAILED, ChannelFault


@mypyc_attr(allow_interpreted_subclasses=True)
class TransactionWaiter:
    """Whoever wants to know what became of a plan; told once, and never within `MetadataBackend.agree`."""

    @abstractmethod
    def agreed(self) -> None:
        """The plan came about, and whoever looks finds it so."""

    @abstractmethod
    def outdated(self) -> None:
        """Something that the plan relies on has changed, and is to be seen: plan again."""

    @abstractmethod
    def failed(self, reason: str) -> None:
        """It is not known to have come about, for this reason."""


def transaction_failed(reason: str) -> ChannelFault:
    """What a client is told whose wish failed."""
    return ChannelFault(PRECONDITION_FAILED, f"the nodes of the cluster could not agree: {reason}")


@final
class PlannedChange:
    """What a key stands for once the plan is carried out; nothing if there is no definition.

    `kept`: whether it concerns something that outlives a node that is alone.
    """

    def __init__(self, key: str, definition: Definition | None, kept: bool) -> None:
        self.key: str = key
        self.definition: Definition | None = definition
        self.kept: bool = kept


@final
class MetadataTransaction:
    """Changes by key, in the order in which they are to be made."""

    def __init__(self) -> None:
        self.changes: dict[str, PlannedChange] = {}
        # keys that must be as they are for the plan to make sense, or must still be missing
        self.relied_on: dict[str, None] = {}
        # keys that keep their values, and yet are not what they were
        self.touched: dict[str, None] = {}
        # beginnings of keys: under none of them may anything come or change first
        self.relied_on_under: dict[str, None] = {}
        # how many of its changes are known to have come about, where that is not all of them at once
        self.made: int = 0

    def put(self, definition: Definition) -> None:
        """From then on there is this."""
        self._change(PlannedChange(definition.key(), definition, definition.kept()))

    def delete(self, key: str, kept: bool = True) -> None:
        """From then on there is nothing under this key."""
        self._change(PlannedChange(key, None, kept))

    def rely_on(self, key: str) -> None:
        """The plan makes no sense if what this key stands for changes first."""
        self.relied_on[key] = None

    def rely_on_all(self, prefix: str) -> None:
        """The plan makes no sense if anything comes or changes whose key begins so; `prefix` ends where a part does."""
        self.relied_on_under[prefix] = None

    def touch(self, key: str) -> None:
        """What this key stands for is not what it was, though its value is; the plan relies on it, too."""
        self.rely_on(key)
        if key not in self.changes:
            self.touched[key] = None

    def planned(self, key: str) -> PlannedChange | None:
        """What this plan does to a key, if anything."""
        return self.changes.get(key)

    def _change(self, change: PlannedChange) -> None:
        self.changes.pop(change.key, None)
        self.changes[change.key] = change
        self.touched.pop(change.key, None)
        self.rely_on(change.key)
