"""What flows through a broker: messages, names, identities and selectors."""
