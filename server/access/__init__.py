"""Who asks, and what they may do: pure rules about principals and roles."""
