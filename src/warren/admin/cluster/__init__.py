"""One broker, whichever node an operator asks: what others know is asked of them, and put together."""
