"""The settings of a program: where its brokers are, what it needs to find there, and how it sends.

    TOML file ─────────┐
    properties file ───┼──▶ tree of plain values ──▶ checked once ──▶ Settings
    SettingsBuilder ───┘

All three ways end in the same check and the same immutable `Settings`, so what a file may say a program may say too.

Promises: a key that nobody knows, a value of the wrong kind or out of its range, a variable that is not set, is a
`SettingsError` that names the file, the key and what is allowed there. There are no settings before all of them make
sense. No error, and no `repr`, shows a password or a URL.

`${NAME}` in a value of a file is the environment variable of that name; `$${` is a plain `${`.

Beside them: `lint` (`settings.naming`) holds names against the convention X_VHOST, A_TO_B_EXCHANGE, X_QUEUE, and
`absences` (`settings.presence`) asks a broker what of a layout it lacks.

Not here: opening a transport by them (`client.template`), declaring (`Transport.declare`).
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
