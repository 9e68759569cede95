"""How operators reach a node: the HTTP API, the pages, Prometheus metrics, trace files.
Not here: commands of the terminal (`cli`), what a command changes in the broker (`broker`).
"""
