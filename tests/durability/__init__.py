"""Nodes that are killed, restarted, filled beyond their memory and their disk, and what their clients remember."""
