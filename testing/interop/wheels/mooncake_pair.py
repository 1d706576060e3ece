"""Mooncake's transfer engine between two processes: one has memory, the other writes to it and reads it.

Arguments: passive or active, the folder where they meet, the address of this host.
"""

import os
import sys

from mooncake.engine import TransferEngine

from meeting import memory, pattern, tell, wait_for

LENGTH = 4 << 20

role, folder, host = sys.argv[1:]
engine = TransferEngine()
if engine.initialize(host, "P2PHANDSHAKE", "rdma", "") != 0:
    sys.exit("the engine finds no device")
buffer, address = memory(LENGTH)
if engine.register_memory(address, LENGTH) != 0:
    sys.exit("memory cannot be registered")

if role == "passive":
    tell(folder, "memory", f"{host}:{engine.get_rpc_port()} {address}".encode())
    wait_for(folder, "written")
    if buffer[:] != pattern(1, LENGTH):
        sys.exit("what was written is not there")
    buffer[:] = pattern(2, LENGTH)
    tell(folder, "changed")
    wait_for(folder, "read")
else:
    peer, remote = wait_for(folder, "memory").decode().split()
    buffer[:] = pattern(1, LENGTH)
    if engine.transfer_sync_write(peer, address, int(remote), LENGTH) != 0:
        sys.exit("the write failed")
    tell(folder, "written")
    wait_for(folder, "changed")
    if engine.transfer_sync_read(peer, address, int(remote), LENGTH) != 0:
        sys.exit("the read failed")
    if buffer[:] != pattern(2, LENGTH):
        sys.exit("what was read is not what is there")
    tell(folder, "read")
print(f"{role}: {LENGTH} bytes each way", flush=True)
# Its threads are no business of the test's.
os._exit(0)
