"""For operators: what a running broker tells and lets itself be told."""
