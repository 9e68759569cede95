"""Settings from a file: TOML, or Java-style properties, which the end of its name tells.

Not here: what a file may say (`settings.checking`), the lines of a properties file (`settings.properties_lines`).
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from warren.client.errors import SettingsError
from warren.client.settings.checking import settings_of
from warren.client.settings.content import Settings
from warren.client.settings.properties_lines import tree_of
from warren.client.settings.section import Source


def read_settings(path: str | Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file; a `SettingsError` says what to change in it."""
    file = str(path)
    suffix = Path(path).suffix
    if suffix == ".toml":
        return toml_settings(_text(file), environment, file)
    if suffix == ".properties":
        return properties_settings(_text(file), environment, file)
    raise SettingsError(f"{file}: a file of settings is named NAME.toml or NAME.properties", file)


def toml_settings(text: str, environment: Mapping[str, str], file: str) -> Settings:
    """The settings of a text in TOML; `file` is its name in errors."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: it is not TOML: {error}", file) from None
    return settings_of(tree, Source(file, textual=False, environment=environment))


def properties_settings(text: str, environment: Mapping[str, str], file: str) -> Settings:
    """The settings of a text of properties; `file` is its name in errors."""
    return settings_of(tree_of(text, file), Source(file, textual=True, environment=environment))


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{file}: it cannot be read: {error.strerror}", file) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: it is not UTF-8 text", file) from None
