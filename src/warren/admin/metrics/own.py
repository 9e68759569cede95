"""Families of our own, beside RabbitMQ's: what RabbitMQ has no word for, or calls by a name that only Erlang knows.

`process_*` are the names that client libraries of Prometheus give to what every process has.

Not here: RabbitMQ's families (`metrics.families`).
"""

import time

from warren import __version__
from warren.admin.metrics.readings import Rows
from warren.admin.metrics.scene import Scene
from warren.admin.metrics.text import COUNTER, GAUGE, Family, labels

PROCESS = (
    Family("process_cpu_seconds_total", COUNTER, "Processor time used by the process in seconds"),
    Family("process_resident_memory_bytes", GAUGE, "Memory of the process in bytes"),
    Family("process_open_fds", GAUGE, "Open file descriptors"),
    Family("process_max_fds", GAUGE, "Limit of open file descriptors"),
)

BUILD = (Family("build_info", GAUGE, "Version of Warren, how its core runs, and on which event loop"),)

LOOP = (
    Family(
        "event_loop_lag_seconds", GAUGE, "How late the event loop was, at worst, in the last five seconds, in seconds"
    ),
)

JOURNAL = (
    Family("journal_segments", GAUGE, "Files of the journal"),
    Family("journal_bytes", GAUGE, "Size of the journal in bytes"),
    Family("journal_live_bytes", GAUGE, "Bytes in the journal that some queue still holds"),
)

CERTIFICATES = (
    Family(
        "certificate_expiry_time_seconds",
        GAUGE,
        "When the certificate of a TLS listener ends, since unix epoch in seconds",
    ),
)


def process(scene: Scene) -> Rows:
    facts = scene.facts
    used = [time.process_time(), facts.memory_used_bytes(), facts.descriptors_used(), facts.descriptors_total]
    return [("", used)]


def build(scene: Scene) -> Rows:
    facts = scene.facts
    return [(labels(version=__version__, core=facts.core_kind, event_loop=facts.loop_name), [1])]


def loop(scene: Scene) -> Rows:
    return [("", [scene.facts.loop_lag_ms() / 1000])]


def journal(scene: Scene) -> Rows:
    """Nothing for a node that keeps none."""
    kept = scene.broker.control.journal
    if kept is None:
        return []
    segments = [*kept.segments.values()]
    size_bytes = sum(segment.size_bytes for segment in segments)
    return [("", [len(segments), size_bytes, sum(segment.live_bytes for segment in segments)])]


def certificates(scene: Scene) -> Rows:
    return [
        (labels(protocol=known.listener.protocol, path=known.path), [known.expires_at_ms / 1000])
        for known in {found.path: found for found in scene.facts.certificates()}.values()
    ]
