"""One queue: its contents, its consumers, its limits and deadlines."""
