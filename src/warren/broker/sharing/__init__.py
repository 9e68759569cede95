"""What the nodes of a cluster know together."""
