"""The job `trace`: the traffic of a broker as a lake, with one row for each event and one for each message.

    trace files ──▶ files ──┐
                            ├──▶ sources ──▶ events ──▶ LAKE/events, LAKE/quarantine ──▶ passages ──▶ LAKE/messages
    a stream of the Firehose┘

Not here: checking queues (`pipeline.audit`), charts (`pipeline.report`).
"""
