"""`report`: what has flowed, how long it took, what grows, and when it will be too much, as one HTML page.

    events ── flows ──────────────────────────────┬── findings ── page
    passages ── tallies ── latencies | backlogs ──┘       └── outlook ── forecast ── trend

Everything is added up in Spark; what reaches the driver is as long as the page, however long the lake is. Times are
whole seconds since 1970, cut by arithmetic, so no time zone of a session or a machine moves a message to another day.

Not here: where the events come from (`pipeline.trace`).
"""
