"""Staged commits: messages that nobody sees until their batch is published."""
