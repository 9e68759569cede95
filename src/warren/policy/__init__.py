"""What operators say of many queues and exchanges at once."""
