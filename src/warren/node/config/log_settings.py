"""The settings of the log: `log.*`.

As in RabbitMQ, a category is logged from its own level on, or from the common one, and nothing passes that is below the
level of the console.

Not here: the keys and their parsers (`config.keys`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from warren.node.log_levels import CATEGORIES, DEFAULT, LEVELS
from warren.node.logs import PLAINTEXT


@dataclass
class LogSettings:
    """From which level on each category is logged, and the form of a line."""

    levels: dict[str, str] = field(default_factory=dict)
    form: str = PLAINTEXT


def log_settings(values: Mapping[str, Any]) -> LogSettings:
    """What was gathered from the file and the environment."""
    console = values.get("log.console.level", "debug")
    common = values.get("log.level", "info" if "log.console.level" not in values else console)
    chosen = {DEFAULT: common} | {
        category: values[f"log.{category}.level"] for category in CATEGORIES if f"log.{category}.level" in values
    }
    levels = {category: max(console, level, key=LEVELS.__getitem__) for category, level in chosen.items()}
    return LogSettings(levels, values.get("log.console.formatter", PLAINTEXT))
