"""The HTTP API described for machines, as OpenAPI wants it."""
