"""A whole node as one pure machine: events in, effects out."""
