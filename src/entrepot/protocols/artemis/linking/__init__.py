"""The side of a CORE connection that carries messages from this broker to another one (artemis.md 1.14, 4.11)."""
