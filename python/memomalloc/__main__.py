"""`python -m memomalloc` is the `memomalloc` command."""

from memomalloc.command import main

main()
