"""The nouns every package shares: messages, entries, arguments, events, effects, and the ports between rooms."""
