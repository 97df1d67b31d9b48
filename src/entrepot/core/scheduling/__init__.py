"""What happens later."""
