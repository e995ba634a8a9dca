#!/usr/bin/env python3
"""Fails where the built library takes a name from elsewhere that ISO C leaves to the program.

A program may define `read` or `open` for itself, and the dynamic linker would give the library the program's. The C
library's own malloc asks for no such name; neither does this one: preload/system_names.cc has them. Names that begin with
an underscore are nobody's to define, and those of ISO C's own library are the implementation's. Prints each other name;
exit code 1 if there is any.
"""

import argparse
import fnmatch
import subprocess
import sys

# Names that may be missing in the library, each with the reason.
ALLOWED = {
    "_*": "reserved for the implementation at file scope (C23, 7.1.3)",
    **dict.fromkeys("""abort getenv time rename memchr memcmp memcpy memmove memset strcmp strcpy strerror strlen strncmp
                       strrchr strstr snprintf sprintf vsnprintf""".split(),
                    "ISO C's own function, which no program may define, and none is seen to"),
    **dict.fromkeys("fputc fputs fwrite".split(), "ISO C's own; the C++ library's last words"),
    "stderr": "ISO C's own stream; the C++ library's last words",
    "dlsym": "the only way to the underlying allocator; who defines it stands between all allocators and theirs",
}


def undefined(library):
    """The dynamic symbols that `library` does not define, without their versions."""
    rows = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    return sorted({row.split()[-1].split("@")[0] for row in rows.splitlines()})


def faults(names):
    """Of these names, those that are not allowed."""
    return [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in ALLOWED)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", default="build/libmemomalloc.so")
    library = parser.parse_args().library
    names = undefined(library)
    found = faults(names)
    for name in found:
        print(f"{library}: takes {name} from elsewhere, which a program may define: see preload/system_names.cc")
    print(f"names: {len(names)} from elsewhere, {len(found)} that a program may define")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
