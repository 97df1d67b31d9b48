"""The broker itself: queues, routing, dispatch, transactions, limits. Synchronous, deterministic, without a socket."""
