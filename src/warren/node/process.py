"""What the node asks of its own process: descriptors, the allocator, the garbage collector, and which core it runs.

Not here: memory (`node.memory`), signals (`node.node`).
"""

import contextlib
import ctypes
import gc
import importlib.util
import resource

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


def settle_allocator() -> None:
    """Large blocks (a turn's output, a batch for the disk) are given back when they are freed.

    Left to itself, glibc learns from the first of them to keep all that follow in the heap, where they stay resident.
    """
    # other C libraries have no such call
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)


def settle_garbage_collector() -> None:
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
