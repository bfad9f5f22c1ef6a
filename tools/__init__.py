"""Programs for those who work on skillserve; they are not part of the product."""
