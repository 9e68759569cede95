"""How a process takes part in a cluster: what it remembers of it, how it joins, how it reaches the common store."""
