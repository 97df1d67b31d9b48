"""STOMP 1.0, 1.1 and 1.2, with the extension headers of ActiveMQ Classic and Artemis."""
