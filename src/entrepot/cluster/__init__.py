"""Brokers together: what a link wants, what may cross it, and how it lives."""
