"""Whether every queue gave what it was given: once, in order, and nothing less.

    passages        what became of each message in each queue      (`pipeline.trace.passages`)
        |
    judging         is it missing, repeated, overtaking?           one row per message and queue
        |       counters: what the broker itself says is in its queues
    figures         lost, duplicated, out of order                 one row per queue
    findings        the messages that these are                    one row per message

Theory. A trace is a witness and not a ledger: it may have been switched on late, it may have dropped copies, and a node
that is started again does not go on with it. So a figure counts what the trace proves together with the broker's
counters, and what could have another cause stands beside it (`excused`, `untraced`) or in a note. The broker's
counters say how many messages wait in a queue, not which; so of several that may be lost those that were published
first are named, as a queue gives them first.

Not here: gathering the trace (`pipeline.trace`).
"""
