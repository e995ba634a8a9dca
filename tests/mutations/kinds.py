"""What looks at a broken copy (run.py): unit tests, preload programs, or Python tests."""

UNIT, PRELOAD, SCRIPT = "unit", "preload", "script"
