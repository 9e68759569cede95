"""Reports as one HTML page: a file that is opened anywhere, sent by mail, printed, and needs nothing but itself.

    Page ── Section ── Facts | Paragraph | Table | Chart

The page asks nobody for anything: style, script and plotly.js stand in it, and its content security policy forbids the
rest. Names from messages are data, never markup. The same values give the same bytes.

Not here: what a report says (`pipeline.reconcile.page`, `pipeline.report`).
"""
