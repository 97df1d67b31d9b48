"""A program's connection in OpenWire: one role a module, put together by `core`."""
