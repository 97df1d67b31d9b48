"""What survives: one journal per broker, which decides octets and never opens a file."""
