"""Samples of counters, taken every few seconds, and the rates between them.

Not here: current values (`admin.message_stats`), Prometheus (`admin.metrics`).
"""
