"""How the C library's allocator treats large blocks: a file of tens of megabytes is given back once it is parsed.

glibc serves blocks from 128 kB on from the system and gives them back when they are freed. But once one was freed
it takes blocks of that size from its heaps, up to 32 MB, where what was freed stays between what is in use. Saying
the size once turns that habit off.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_M_MMAP_THRESHOLD = -3  # malloc.h
_BYTES = 256 << 10


def give_back_large_blocks() -> bool:
    """Have blocks of 256 KiB and more given back when they are freed; whether the C library knows how.

    For the process and at once; other libraries than glibc are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).mallopt(ctypes.c_int(_M_MMAP_THRESHOLD), ctypes.c_int(_BYTES)))
    return False
