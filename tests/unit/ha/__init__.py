"""What stands before a cluster: read, rendered, planned and judged, without a machine."""
