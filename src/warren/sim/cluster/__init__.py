"""Several nodes in one pretend world, as one cluster."""
