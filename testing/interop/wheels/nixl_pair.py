"""NIXL over the UCX and the libibverbs that its package brings, between two agents: one has memory, the other writes to it and reads it.

Arguments: passive or active, the folder where they meet, ignored.
"""

import sys
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

from meeting import pattern, tell, wait_for

LENGTH = 4 << 20

role, folder = sys.argv[1:3]
agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
buffer = numpy.zeros(LENGTH, dtype=numpy.uint8)
agent.register_memory([(buffer.ctypes.data, LENGTH, 0, "")], "DRAM")


def transfer(operation, peer, remote):
    """One request, waited for."""
    ours = agent.get_xfer_descs([(buffer.ctypes.data, LENGTH, 0)], "DRAM")
    theirs = agent.get_xfer_descs([(remote, LENGTH, 0)], "DRAM")
    request = agent.initialize_xfer(operation, ours, theirs, peer, operation.encode())
    state = agent.transfer(request)
    deadline = time.monotonic() + 60
    while state != "DONE":
        if state == "ERR" or time.monotonic() > deadline:
            sys.exit(f"{operation}: {state}")
        state = agent.check_xfer_state(request)
    agent.release_xfer_handle(request)


def wait_for_word(word):
    """The peer's transfer is complete here."""
    deadline = time.monotonic() + 60
    while word not in agent.get_new_notifs().get("active", []):
        if time.monotonic() > deadline:
            sys.exit(f"nobody said {word}")


if role == "passive":
    tell(folder, "address", str(buffer.ctypes.data).encode())
    tell(folder, "memory", agent.get_agent_metadata())
    wait_for_word(b"WRITE")
    if buffer.tobytes() != pattern(1, LENGTH):
        sys.exit("what was written is not there")
    buffer[:] = numpy.frombuffer(pattern(2, LENGTH), dtype=numpy.uint8)
    tell(folder, "changed")
    wait_for_word(b"READ")
    tell(folder, "seen")
else:
    peer = agent.add_remote_agent(wait_for(folder, "memory"))
    remote = int(wait_for(folder, "address"))
    buffer[:] = numpy.frombuffer(pattern(1, LENGTH), dtype=numpy.uint8)
    transfer("WRITE", peer, remote)
    wait_for(folder, "changed")
    transfer("READ", peer, remote)
    if buffer.tobytes() != pattern(2, LENGTH):
        sys.exit("what was read is not what is there")
    wait_for(folder, "seen")
print(f"{role}: {LENGTH} bytes each way", flush=True)
