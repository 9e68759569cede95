"""Where a message goes: the exchanges and bindings of a virtual host, and the walk from a routing key to queues."""
