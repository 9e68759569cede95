"""How far a connection has come.

Not here: how it gets from one to the next (`machine.connection`).
"""

from typing import Final

from mypy_extensions import i64

AWAIT_START: Final[i64] = 0
AWAIT_TUNE: Final[i64] = 1
AWAIT_OPEN_OK: Final[i64] = 2
IS_OPEN: Final[i64] = 3
CLOSING: Final[i64] = 4
CLOSED: Final[i64] = 5

# how far the handshake had come when a connection ended
GREETING: Final = "greeting"
LOGIN: Final = "login"
OPENING: Final = "opening"
OPEN: Final = "open"
