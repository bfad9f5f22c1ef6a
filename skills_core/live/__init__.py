"""The live library, last step of the data: the catalog follows the disk, and each reload says what changed."""
