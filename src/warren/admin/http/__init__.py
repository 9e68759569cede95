"""One HTTP request: its connection, its path, who asks, what they may, and the answer."""
