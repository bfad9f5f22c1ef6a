"""The report of an eval workspace: one HTML page, JUnit XML, a Markdown summary and the gates of CI."""
