"""Write the pages of `docs/reference` from the product itself: `make reference`."""
