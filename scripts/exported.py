"""torch's exported programs as graphs."""

import inspect


def module(exported):
    """Its module without the checks of inputs that newer torch puts into it; older torch knows no such checks."""
    options = {"check_guards": False} if "check_guards" in inspect.signature(exported.module).parameters else {}
    return exported.module(**options)
