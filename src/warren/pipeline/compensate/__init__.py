"""The job `compensate`: messages that resend, reverse or correct the findings of a reconciliation.

    settings ──▶ attempts ──▶ job ──▶ the broker, or outbox ──▶ an outbox table

The messages follow from the result's table and from all earlier attempts, up to a maximum for each key. They are
written down before any of them is published (the intent), and marked as confirmed afterwards. So a run that was killed
continues from its intent, and a key's attempts count even if their confirms were never seen.

Not here: finding differences (`pipeline.reconcile`), publishing (`pipeline.publication`).
"""
