"""Hostile clients against the core, in process: their input, the permitted replies, and the clients not to disturb."""
