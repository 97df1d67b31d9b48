"""What a program decides that reads ranges and commits stages on many brokers. No sockets, threads or clocks."""
