"""What the two processes of a test share: files in a folder that both are given, and bytes."""

import ctypes
import mmap
import os
import sys
import time


def tell(folder, name, what=b""):
    """Leaves something for the other, whole or not at all."""
    place = os.path.join(folder, name)
    with open(place + ".new", "wb") as file:
        file.write(what)
    os.rename(place + ".new", place)


def has_left(folder, name):
    """Whether the other has left it."""
    return os.path.exists(os.path.join(folder, name))


def wait_for(folder, name):
    """What the other left; ends the program where that does not come."""
    place = os.path.join(folder, name)
    deadline = time.monotonic() + 60
    while not has_left(folder, name):
        if time.monotonic() > deadline:
            sys.exit(f"nobody has left {name} in {folder}")
        time.sleep(0.005)
    with open(place, "rb") as file:
        return file.read()


def pattern(seed, length):
    """Bytes that tell one transfer from the other."""
    return bytes((seed + 7 * place) & 0xFF for place in range(256)) * (length // 256)


def memory(length):
    """Bytes, and the address where they are."""
    buffer = mmap.mmap(-1, length)
    return buffer, ctypes.addressof(ctypes.c_char.from_buffer(buffer))
