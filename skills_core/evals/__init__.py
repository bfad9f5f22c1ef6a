"""What a skill is worth and whether it fires: test cases, runs with and without the skill, grades, honest numbers."""
