"""Who comes in, and what he may do."""
