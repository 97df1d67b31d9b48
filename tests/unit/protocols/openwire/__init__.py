"""OpenWire: the table, the classes, the frames, and what peers agree on."""
