"""Jolokia: JMX over HTTP as tools of ActiveMQ and Artemis ask for it, answered from management messages."""
