"""A catalog that follows the disk: the library reloads what changes, and the watcher tells it what has changed."""
