"""The command `entrepot`. Modules here word things for people and never decide what a broker does."""
