"""What several kinds of tests share: a raw AMQP client that owes the broker nothing, and nodes as child processes."""
