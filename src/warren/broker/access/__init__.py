"""Who is let in, who is in, and what operators change about either."""
