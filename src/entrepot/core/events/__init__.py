"""What happened, for those who want to know."""
