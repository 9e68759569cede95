"""The job `audit`: whether each queue delivered every message once and in order.

    passages        what became of each message in each queue      (`pipeline.trace.passages`)
        |
    check_passages  is it missing, repeated, overtaking?           one row per message and queue
        |       counters: what the broker itself says is in its queues
    queue_stats     lost, duplicated, out of order                 one row per queue
    findings        the messages behind these numbers              one row per message

Theory. A trace is a witness and not a ledger: it may have been switched on late, it may have dropped copies, and a node
that restarts does not continue it. So a number counts only what the trace proves together with the broker's counters.
A message that could be missing for another reason is counted apart (`excused`, `untraced`) or explained in a note. The
broker's counters say how many messages wait in a queue, not which ones; so of several that may be lost the first
published are named, because a queue delivers them first.

Not here: collecting the trace (`pipeline.trace`).
"""
