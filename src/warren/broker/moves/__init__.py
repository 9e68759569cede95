"""How queues come to be mirrored, where their copies are, and how their masters move on purpose."""
