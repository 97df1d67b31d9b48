"""How a message comes in: limits, flow control, what came before, and the hand-over to its queues."""
