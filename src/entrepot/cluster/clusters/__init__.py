"""Clusters as Artemis has them: who is in one, how they find one another, and what a node knows of others' queues."""
