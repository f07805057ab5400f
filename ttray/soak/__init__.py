"""Training while workers are killed and stopped: what dies, what it costs, and whether any bit differs."""
