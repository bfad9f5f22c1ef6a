"""Programs for developers of skillserve; they are not part of the product."""
