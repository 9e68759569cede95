"""Why a verb failed, and the exit codes that scripts read.

Not here: what is printed around a failure (`cli.ctl.run`).
"""

from typing import Final

OK: Final = 0
USAGE: Final = 64
DATA_ERROR: Final = 65
NO_SUCH_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
TIMED_OUT: Final = 75

STOPPED: Final = "app_stopped"
"""How a node says that it is stopped."""


class Failure(Exception):
    """The verb could not do what it was asked; the text goes to standard error as it is."""

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.text = text


class Misuse(Failure):
    """The command line is wrong: the text is printed with what was given and how it should be."""

    prefix = "Error (argument validation)"


class Untimely(Misuse):
    """The node is not in the state that the verb needs."""

    prefix = "Error"

    def __init__(self, text: str) -> None:
        super().__init__(USAGE, text)


class TimedOut(Failure):
    """The server took longer than it was given."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(TIMED_OUT, f"timed out. Timeout value used: {timeout_s:g}")


class Declined(Failure):
    """The server answered with a status of 400 or more."""

    def __init__(self, status: int, error: str, reason: str, document: dict[str, object]) -> None:
        super().__init__(SOFTWARE if status >= 500 else UNAVAILABLE, in_error(reason))
        self.status = status
        self.error = error
        self.reason = reason
        self.document = document


def in_error(reason: str) -> str:
    """A reason as most verbs print it."""
    return f"Error:\n{reason}"


def failed(reason: str, exit_code: int = UNAVAILABLE) -> Failure:
    return Failure(exit_code, in_error(reason))


def no_such_vhost(vhost: str) -> Failure:
    return Failure(DATA_ERROR, f"Virtual host '{vhost}' does not exist")
