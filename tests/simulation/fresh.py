"""Loads the broker, the simulator and the scenarios once more, from their sources, with some of their text changed.

They are interpreted even where the broker is compiled, and other tests do not see them.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tests.architecture.source_tree import ROOT

CLUSTERS = {"warren.": ROOT / "src", "tests.simulation.cluster.": ROOT}
RINGS = dict.fromkeys(
    (
        "warren.broker.replication",
        "warren.sim.replica_sets",
        "warren.broker.model.turn",
        "warren.broker.model.replica_contents",
        "warren.broker.model.replica_set",
    ),
    ROOT / "src",
)
"""Prefixes of the modules that are loaded again, and their roots: for whole brokers, and for replica sets alone."""

Edit = tuple[str, str, str]
"""A module, a text that occurs in it once, and its replacement."""


class ChangedSources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds these modules, and executes their text with the edits."""

    def __init__(self, edits: Sequence[Edit], places: Mapping[str, Path]) -> None:
        for name, _old, _new in edits:
            if not (ROOT / "src/warren" / name.replace(".", "/")).with_suffix(".py").exists():
                raise ValueError(f"no module {name}")
        self._edits = edits
        self._places = places

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        root = next((root for beginning, root in self._places.items() if name.startswith(beginning)), None)
        if root is None:
            return None
        folder = root / name.replace(".", "/")
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        places = [str(folder)] if folder.is_dir() else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=places)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        with open(module.__spec__.origin) as source:
            text = source.read()
        for name, old, new in self._edits:
            if f"warren.{name}" == module.__name__:
                if text.count(old) != 1:
                    raise ValueError(f"{text.count(old)} times in {name}: {old}")
                text = text.replace(old, new)
        exec(compile(text, module.__spec__.origin, "exec"), module.__dict__)


@contextmanager
def freshly_loaded(edits: Sequence[Edit], places: Mapping[str, Path]) -> Iterator[None]:
    """Modules imported meanwhile from these places have these edits."""
    beginnings = tuple(places)
    kept = {name: module for name, module in sys.modules.items() if name.startswith(beginnings)}
    finder = ChangedSources(edits, places)
    _forget(beginnings)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget(beginnings)
        sys.modules.update(kept)
        for name, module in kept.items():
            parent, _dot, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


def _forget(beginnings: tuple[str, ...]) -> None:
    for name in [name for name in sys.modules if name.startswith(beginnings)]:
        del sys.modules[name]
