"""What another broker that mirrors itself into this one tells, done here (artemis.md 2.8)."""
