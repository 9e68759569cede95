"""How a node plays its parts in the rings of mirrored queues: as a master, as a mirror, and when a master is lost."""
