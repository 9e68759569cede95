"""The same random conversations with two brokers, compared step by step; `bench/differential` runs them."""
