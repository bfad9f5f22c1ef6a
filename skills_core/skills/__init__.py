"""One skill as data: its content, the conditions that it must meet, its URIs, and its files for models."""
