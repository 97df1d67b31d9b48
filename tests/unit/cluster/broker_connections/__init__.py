"""Connections that this broker opens over AMQP."""
