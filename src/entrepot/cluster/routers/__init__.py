"""Connection routers: which broker serves a client that comes (artemis.md 4.14)."""
