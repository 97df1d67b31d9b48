"""Queries that run for ever in one process: what a file says, when each is started again, and how it is doing."""
