"""Reports as one HTML page: a file that can be opened anywhere, sent by mail and printed, and needs no other file.

    HtmlPage ── PageSection ── FactList | Paragraph | HtmlTable | Chart

The page loads nothing: style, script and plotly.js stand in it, and its content security policy forbids the rest. Names
from messages are data, never markup. The same values give the same bytes.

Not here: the content of a report (`pipeline.reconcile.summary`, `pipeline.report`).
"""
