"""Traces: copies of messages from the Firehose, written to files that operators start, stop and read.

Not here: the HTTP paths (`admin.resources.traces`), the Firehose itself (`broker.sessions`).
"""
