"""Help for authors of skills: advice for each diagnostic, and automatic fixes for mechanical faults; pure."""
