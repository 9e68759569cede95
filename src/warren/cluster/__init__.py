"""Several nodes that are one broker: who they are, who reaches whom, and what follows."""
