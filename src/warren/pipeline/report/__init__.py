"""The job `report`: traffic, latencies, growth and a forecast, as one HTML page.

    events ── flows ─────────┬── findings ── job (the page)
    passages ── latencies ───┘       └── outlook ── forecast

Everything is added up in Spark; the driver receives as much as the page shows, however large the lake is. Times are
whole seconds since 1970, cut by arithmetic, so no time zone of a session or a machine moves a message to another day.

Not here: where the events come from (`pipeline.trace`).
"""
