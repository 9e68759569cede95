"""Operators' access to a node: the HTTP API, the pages, Prometheus metrics, trace files.

Not here: terminal commands (`cli`), what a command changes (`broker`).
"""
