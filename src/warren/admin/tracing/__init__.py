"""Traces: what the Firehose copies, written to files that operators start, stop and read."""
