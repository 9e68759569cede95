"""The settings of a program: its brokers, the topology it needs, and how it sends.

    TOML file ─────────┐
    properties file ───┼──▶ tree of plain values ──▶ checked once ──▶ Settings
    SettingsBuilder ───┘

All three end in the same check and the same immutable `Settings`, so a program can set everything that a file can.

Promises: an unknown key, a value of the wrong type or out of range, or an unset variable is a `SettingsError` that
names the file, the key and the allowed values. `Settings` exist only if all of them are valid. No error and no `repr`
shows a password or a URL.

`${NAME}` in a value of a file is the environment variable of that name; `$${` is a plain `${`.

`lint` checks names against the convention X_VHOST, A_TO_B_EXCHANGE, X_QUEUE, and `absences` asks a broker which parts
of a layout it lacks (`settings.checks`).

Not here: opening a transport (`client.template`), declaring (`Transport.declare`).
"""

from warren.client.settings.checks import Absence, Finding, absences, lint
from warren.client.settings.files import read_settings
from warren.client.settings.settings import Settings, SettingsBuilder, TemplateSettings

__all__ = [
    "Absence",
    "Finding",
    "Settings",
    "SettingsBuilder",
    "TemplateSettings",
    "absences",
    "lint",
    "read_settings",
]
