"""What flowed through the broker, as a lake: one row for each event, and one for each message with its life.

    trace files ──▶ files ────┐
                              ├──▶ events ──▶ LAKE/events, LAKE/quarantine ──▶ messages ──▶ LAKE/messages
    a stream    ──▶ firehose ─┘

Not here: what is told of queues (`pipeline.audit`) and shown in charts (`pipeline.report`).
"""
