"""Federation over CORE: what is wanted here is fetched from other brokers while it is wanted (artemis.md 4.12)."""
