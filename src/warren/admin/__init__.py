"""How operators reach a node: the HTTP API, the pages, Prometheus, trace files."""
