"""One broker, two machines: who may serve the store, since when, and until when at the latest."""
