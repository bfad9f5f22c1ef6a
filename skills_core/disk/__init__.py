"""The disk, first step of the data: sources (directories of skills), their listings, and safe reads and writes."""
