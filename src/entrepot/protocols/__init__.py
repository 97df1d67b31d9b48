"""Languages: a folder each, no folder knows another."""
