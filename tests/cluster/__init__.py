"""Nodes that make one broker, as real processes."""
