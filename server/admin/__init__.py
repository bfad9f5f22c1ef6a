"""What a person who looks after a server asks of it: its status, and a reload."""
