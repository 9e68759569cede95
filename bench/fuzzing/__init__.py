"""Hostile clients against the core, in process: what they send, what they may be answered, who must not notice."""
