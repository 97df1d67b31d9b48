"""MQTT 3.1, 3.1.1 and 5: packets, messages, and the server's side of a connection."""
