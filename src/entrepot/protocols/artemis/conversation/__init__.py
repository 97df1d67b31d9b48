"""A program's connection to brokers that speak CORE, one role a module; `core` puts them together."""
