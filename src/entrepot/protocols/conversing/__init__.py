"""What a program's client asks of a conversation, whatever wire that speaks: one port, and the values on it."""
