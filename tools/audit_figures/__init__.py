"""Measure the audit: precision and recall of each rule on labelled skills, hostile and harmless."""
