"""What systemd is told of the process: that it is ready, that it stops, how it is.

Whoever manages services as it does names a datagram socket in `NOTIFY_SOCKET`; without one there is nobody to tell.
What is told is for operators and never matters to the node, so whatever goes wrong with it is passed over.

Not here: the units that ask for it (`ha.units`), the `ready` line for scripts (`node.announcing`).
"""

import contextlib
import os
import socket

SOCKET_VARIABLE = "NOTIFY_SOCKET"


def ready(status: str) -> None:
    """Whoever waits for the service may go on; may be told again."""
    _tell(f"READY=1\nSTATUS={status}")


def status(text: str) -> None:
    """One line for `systemctl status`."""
    _tell(f"STATUS={text}")


def stopping() -> None:
    """The process will end."""
    _tell("STOPPING=1\nSTATUS=says goodbye to its clients")


def _tell(assignments: str) -> None:
    address = os.environ.get(SOCKET_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # one of Linux's abstract names, which begin with a byte that no variable can hold
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
        told.setblocking(False)
        told.sendto(assignments.encode(), address)
