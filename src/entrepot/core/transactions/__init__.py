"""Transactions: what they hold, how they are carried out, and branches that were promised to a coordinator."""
