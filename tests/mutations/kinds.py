"""What looks at a mutation (run.py): unit tests, preload programs, or Python tests."""

UNIT, PRELOAD, SCRIPT = "unit", "preload", "script"
