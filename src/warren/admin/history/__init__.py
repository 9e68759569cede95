"""Samples of every counter, taken every few seconds, and the rates between them.
Not here: the current values (`admin.message_stats`), Prometheus (`admin.metrics`).
"""
