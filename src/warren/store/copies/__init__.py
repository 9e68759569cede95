"""What a node holds of a queue that several nodes hold: on disk, or in memory."""
