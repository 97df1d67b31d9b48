"""AMQP 1.0 from the side that dialled: a broker that opens sessions and links at another one."""
