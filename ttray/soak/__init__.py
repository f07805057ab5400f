"""Training beside a killer: what dies, what it costs, and whether a single bit of the result differs."""
