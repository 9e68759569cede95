"""Queues that live on other nodes: the client's side, the home's side, and what goes over the link between them."""
