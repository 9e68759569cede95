"""What every figure was: samples of counters and lengths, every few seconds, and the rates between them."""
