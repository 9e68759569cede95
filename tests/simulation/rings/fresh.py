"""Loads the ring and its pretend world once more, from their sources, with some of their text changed.

They are interpreted even where the core is compiled, and nobody else sees them.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tests.architecture.source_tree import ROOT

FRESH = ("warren.mirroring", "warren.sim.rings", "warren.model.turn", "warren.model.copies", "warren.model.rings")


def is_fresh(name: str) -> bool:
    return name.startswith(FRESH)


class ChangedSources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds these modules, and executes their text as it would be after the edits."""

    def __init__(self, edits: Sequence[tuple[str, str, str]]) -> None:
        self._edits = edits

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if not is_fresh(name):
            return None
        folder = ROOT / "src" / name.replace(".", "/")
        is_package = folder.is_dir()
        file = folder / "__init__.py" if is_package else folder.with_suffix(".py")
        places = [str(folder)] if is_package else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=places)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        with open(module.__spec__.origin) as source:
            text = source.read()
        for name, old, new in self._edits:
            if f"warren.{name}" == module.__name__:
                assert text.count(old) == 1, f"{text.count(old)} times in {name}: {old}"
                text = text.replace(old, new)
        exec(compile(text, module.__spec__.origin, "exec"), module.__dict__)


@contextmanager
def freshly_loaded(edits: Sequence[tuple[str, str, str]]) -> Iterator[Any]:
    """The module `sim.rings.run` of a ring in which these texts were replaced: module, old, new."""
    kept = {name: module for name, module in sys.modules.items() if is_fresh(name)}
    finder = ChangedSources(edits)
    _forget()
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module("warren.sim.rings.run")
    finally:
        sys.meta_path.remove(finder)
        _forget()
        sys.modules.update(kept)
        for name, module in kept.items():
            parent, _dot, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


def _forget() -> None:
    for name in [name for name in sys.modules if is_fresh(name)]:
        del sys.modules[name]
