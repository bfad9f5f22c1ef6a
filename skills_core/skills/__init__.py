"""One skill as a value, used by `loading` and `catalog`: its content and URIs, its conditions, its files for models."""
