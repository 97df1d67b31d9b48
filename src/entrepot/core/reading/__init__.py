"""Who reads: subscriptions, and what topics remember for those who come later."""
