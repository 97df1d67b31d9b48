"""Addresses of one broker and what is bound to them: definitions of queues, bindings, the choice among them."""
