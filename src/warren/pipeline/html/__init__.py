"""Reports as one HTML page: a single file that can be opened anywhere, mailed and printed.

    HtmlPage ── PageSection ── FactList | Paragraph | HtmlTable | Chart

The page loads nothing: style, script and plotly.js are part of it, and its content security policy forbids the rest.
Names from messages are data, never markup. The same values give the same bytes.

Not here: the content of a report (`pipeline.reconcile.summary`, `pipeline.report`).
"""
