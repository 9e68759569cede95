"""The definitions that the configuration names, imported before a node lets anybody in.

All files count as one: if any of them is at fault, nothing is imported, and the node does not start. What the node has
already stays as it is, so the file is the same at every start.

Not here: what a definition is (`admin.importing`), the keys (`config.keys`).
"""

import os

from warren.admin.importing.importer import DefinitionsFile, Importer
from warren.admin.importing.lines import NotDefinitions
from warren.errors import ConfigError, Refused


async def import_all(importer: Importer, paths: list[str]) -> int:
    """How many definitions there were; `ConfigError` names the file and the line at fault."""
    files = [_read(path) for given in paths for path in _files_at(given)]
    try:
        return await importer.take(files, keep=True)
    except (NotDefinitions, Refused) as error:
        raise ConfigError(str(error)) from error


def _files_at(path: str) -> list[str]:
    """The file itself, or the JSON files of a directory, in order."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".json")]


def _read(path: str) -> DefinitionsFile:
    try:
        with open(path, "rb") as file:
            return DefinitionsFile(path, file.read())
    except OSError as error:
        raise ConfigError(f"the definitions {path} cannot be read: {error.strerror}") from error
