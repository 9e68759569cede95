"""Nodes that are killed, restarted, filled beyond their memory and their disk; their clients record every promise."""
