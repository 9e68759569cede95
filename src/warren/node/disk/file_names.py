"""The names of the files in a data directory.

::

    NODE                   marks the directory as ours: the format, and the node's name
    LOCK                   locked while a node runs; holds its pid
    cookie                 the secret that the nodes of a cluster share, unless it is elsewhere
    metadata.db            exchanges, queues, bindings
    cluster.json           what a member of a cluster knows of it
    FOUNDING               a cluster is being founded, and the proof that the node recognises it by in the store
    etcd/, etcd-identity/  its etcd member, and its certificate there
    RESET                  everything is being deleted
    journal/
        NNNNNNNNNNNN.seg   a segment
        NNNNNNNNNNNN.idx   the index of a sealed segment
        checkpoint         recovery reads no older segments than it says
        spare              an unused segment, kept to become the next one
        identity           tells this journal from any other, for the node's cluster
    streams/
        ID/NNNNNNNNNNNN.chunks   a segment of a stream, each stream in a directory of its own
    traces/                files of traces, unless trace_files.directory names another place

A name with `.new` behind it is a file that is being written: it gets its real name when all of it is on disk.

Not here: the contents of the files (`broker.journal`).
"""

import os
import re

NODE = "NODE"
LOCK = "LOCK"
COOKIE = "cookie"
METADATA = "metadata.db"
CLUSTER = "cluster.json"
FOUNDING = "FOUNDING"
ETCD = "etcd"
ETCD_IDENTITY = "etcd-identity"
RESET = "RESET"
JOURNAL = "journal"
STREAMS = "streams"
TRACES = "traces"
CHECKPOINT = "checkpoint"
SPARE = "spare"
IDENTITY = "identity"
UNFINISHED_SUFFIX = ".new"

_OWN = re.compile(
    rf"{NODE}|{LOCK}|{COOKIE}|{METADATA}(-wal|-shm)?|{CLUSTER}|{FOUNDING}|{RESET}|{CHECKPOINT}|{SPARE}|{IDENTITY}"
    r"|\d{12}\.(seg|idx|chunks)"
)
_SEGMENT = re.compile(r"(\d{12})\.seg")
_INDEX = re.compile(r"(\d{12})\.idx")


def is_own(name: str) -> bool:
    """Whether one of the node's own files has this name."""
    return _OWN.fullmatch(name) is not None


def segment_name(number: int) -> str:
    return f"{number:012}.seg"


def index_name(number: int) -> str:
    return f"{number:012}.idx"


def segment_path(journal: str, number: int) -> str:
    return os.path.join(journal, segment_name(number))


def index_path(journal: str, number: int) -> str:
    return os.path.join(journal, index_name(number))


def segment_number(name: str) -> int | None:
    """The number of the segment with this file name; None for other files."""
    found = _SEGMENT.fullmatch(name)
    return int(found[1]) if found else None


def index_number(name: str) -> int | None:
    found = _INDEX.fullmatch(name)
    return int(found[1]) if found else None
