"""Messages that go from one broker to another."""
