"""The server side of a connection, whatever is spoken over it: one machine of parts, each of which owns its state.

A protocol's server subclasses `session.ServerSession` and adds its own words: a *dialect*.
"""
