"""Reading a whole node often and cheaply: what has changed since last time, and sums over everything."""
