"""Settings of the node's own process: descriptors, the allocator, the garbage collector, compiled or pure core; and
notifications to systemd.

systemd, or a service manager like it, names a datagram socket in `NOTIFY_SOCKET`. The notifications are for operators
only, so errors are ignored.

Not here: memory (`node.resources`), signals and the `ready` line (`node.node`), the units (`cli.ha`).
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
_LARGE_BYTES = 4 * 1024 * 1024
_KEPT_FREE_BYTES = 16 * 1024 * 1024
_YOUNG_OBJECTS = 20_000
_YOUNG_COLLECTIONS = 5
_MIDDLE_COLLECTIONS = 250


def raise_descriptor_limit() -> int:
    """Raise the number of descriptors to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # some containers forbid even this
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft


def tune_allocator() -> None:
    """Return large blocks to the system when they are freed, but not the buffers of an ordinary turn.

    By default, glibc adapts to the first large block and keeps all later ones in the heap, where they stay resident.
    A turn reads and writes about a megabyte for each busy connection; returning that each time would cost more in page
    faults than the broker's work on small messages.
    """
    # other C libraries have no such call
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)


def tune_garbage_collector() -> None:
    """Never collect objects that exist at start, and collect others seldom.

    The broker frees by reference counts; the collector is only for cycles. A full collection walks every message of a
    backlog, so it runs only after tens of millions of allocations more than frees. A middle one walks 100,000 objects,
    which takes ten milliseconds of a turn.
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
    """The service is ready; may be repeated."""
    _notify_systemd(f"READY=1\nSTATUS={status}")


def notify_status(text: str) -> None:
    """One line for `systemctl status`."""
    _notify_systemd(f"STATUS={text}")


def notify_stopping() -> None:
    """The process will end."""
    _notify_systemd("STOPPING=1\nSTATUS=says goodbye to its clients")


def _notify_systemd(assignments: str) -> None:
    address = os.environ.get(SOCKET_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # an abstract name of Linux, which begins with a null byte that no variable can hold
        address = f"\0{address[1:]}"
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify_socket,
    ):
        notify_socket.setblocking(False)
        notify_socket.sendto(assignments.encode(), address)
