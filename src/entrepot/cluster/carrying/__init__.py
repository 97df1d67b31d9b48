"""Messages that cross to other brokers over CORE: the bridges of a ``broker.xml`` (artemis.md 1.14, 4.11)."""
