"""Connections that this broker opens to other brokers and routers over AMQP."""
