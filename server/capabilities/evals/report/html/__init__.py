"""The report as one self-contained HTML page, from templates that escape every text that is not ours."""
