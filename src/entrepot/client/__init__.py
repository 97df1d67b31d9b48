"""The client for Python programs: `connection` and `session` for asyncio, `blocking` the same for threads."""
