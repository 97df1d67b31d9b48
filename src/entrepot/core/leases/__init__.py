"""Ranges of messages that a named reader takes, and may read again until it settles them."""
