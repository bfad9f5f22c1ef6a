"""Connect clients: add this server to their configuration files, and remove it again."""
