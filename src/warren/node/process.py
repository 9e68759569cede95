"""What the node asks of its own process: descriptors, the allocator, the garbage collector, and which core it runs.

Not here: memory (`node.resources`), signals (`node.node`).

What systemd is told of the process: that it is ready, that it stops, how it is.

Whoever manages services as it does names a datagram socket in `NOTIFY_SOCKET`; without one there is nobody to tell.
What is told is for operators and never matters to the node, so whatever goes wrong with it is passed over.

Not here: the units that ask for it (`cli.ha.node_files`), the `ready` line for scripts (`node.node`).
"""

import contextlib
import ctypes
import gc
import importlib.util
import os
import resource
import socket

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1024 * 1024
_KEPT_FREE_BYTES = 16 * 1024 * 1024
_YOUNG_OBJECTS = 50_000
_YOUNG_COLLECTIONS = 10
_MIDDLE_COLLECTIONS = 50


def raise_descriptor_limit() -> int:
    """As many sockets as the operating system allows without asking anybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # some containers forbid even this
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft


def tune_allocator() -> None:
    """Large blocks (a turn's output, a batch for the disk) are given back when they are freed.

    Left to itself, glibc learns from the first of them to keep all that follow in the heap, where they stay resident.
    """
    # other C libraries have no such call
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)


def tune_garbage_collector() -> None:
    """What exists at start stays for good: never look at it again, and look at everything else seldom.

    The core frees by counting references; the collector is there for cycles. A full collection walks every message of a
    backlog, so it comes only after tens of millions of objects more than were freed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)


def core_kind() -> str:
    """`compiled` or `pure`."""
    found = importlib.util.find_spec("warren.broker.broker")
    return "compiled" if found is not None and str(found.origin).endswith(".so") else "pure"


SOCKET_VARIABLE = "NOTIFY_SOCKET"


def notify_ready(status: str) -> None:
    """Whoever waits for the service may go on; may be told again."""
    _tell(f"READY=1\nSTATUS={status}")


def notify_status(text: str) -> None:
    """One line for `systemctl status`."""
    _tell(f"STATUS={text}")


def notify_stopping() -> None:
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
