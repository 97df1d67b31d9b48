"""entrepot: a message broker cluster that does what ActiveMQ Classic and Artemis do, in one program."""

__version__ = "0.1.0"
