"""All that a node keeps is deleted, in one step as far as anybody can tell: messages, definitions, its membership.

A file says that it has begun. Whoever opens a directory with that file in it finishes the deletion first, so whatever
interrupts it, afterwards the node has everything or nothing. What makes the directory the node's own stays: its name,
its lock, its cookie; and so do files that others put there.

Not here: leaving a cluster first (`node.cluster.stopped_member`).
"""

import os
import shutil

from warren.node.disk import names
from warren.node.disk.durable import replace_file, sync_directory

_KEPT_BY_THE_NODE = (
    names.CLUSTER,
    names.FOUNDING,
    names.METADATA,
    f"{names.METADATA}-wal",
    f"{names.METADATA}-shm",
    names.JOURNAL,
    names.STREAMS,
    names.ETCD,
    names.ETCD_IDENTITY,
)


def delete_everything(data_dir: str) -> None:
    """To be called with the directory locked, and nothing in it open."""
    replace_file(os.path.join(data_dir, names.RESET), b"everything the node keeps is being deleted\n")
    finish_deletion(data_dir)


def finish_deletion(data_dir: str) -> None:
    """Do what was begun; nothing if nothing was."""
    mark = os.path.join(data_dir, names.RESET)
    if not os.path.exists(mark):
        return
    for name in _KEPT_BY_THE_NODE:
        path = os.path.join(data_dir, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)
    sync_directory(data_dir)
    os.unlink(mark)
    sync_directory(data_dir)
