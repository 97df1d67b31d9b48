"""AMQP 1.0: the server side (OASIS, 29 October 2012)."""
