"""Python's start hook of `memomalloc run`: its folder stands in PYTHONPATH, so that site.py imports this file.

The sitecustomize that would have been imported without it is imported in its place. Any Python reads this file, so it
keeps to what all of them understand; one that leaves PYTHONPATH out (-E, -I, -S) never does.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
if sys.version_info >= (3, 7):
    import _memomalloc_opening

    _memomalloc_opening.install()

# The folder has done its work in this process; its children have it by PYTHONPATH.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _here]
_own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") not in (None, "sitecustomize"):
        raise
finally:
    sys.modules.setdefault("sitecustomize", _own)
