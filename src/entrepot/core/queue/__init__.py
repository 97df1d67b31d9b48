"""One queue: what waits in it, who gets it next, and what becomes of what nobody took."""
