"""The deterministic simulator: real nodes in a pretend world, where a seed is a whole run and a bug report."""
