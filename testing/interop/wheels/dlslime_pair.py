"""DLSlime's transfer engine between two processes: a write with immediate data, a read, and a message.

Arguments: passive or active, the folder where they meet, ignored.
"""

import json
import sys

from dlslime import RDMAEndpoint, available_nic

from meeting import memory, pattern, tell, wait_for

LENGTH = 4 << 20

role, folder = sys.argv[1:3]
peer = {"passive": "active", "active": "passive"}[role]
endpoint = RDMAEndpoint(device_name=available_nic()[0], num_qp=2)
buffer, address = memory(LENGTH)
near = endpoint.register_memory_region("buffer", address, 0, LENGTH)
tell(folder, role, json.dumps([endpoint.endpoint_info(), endpoint.mr_info()["buffer"]]).encode())
theirs, region = json.loads(wait_for(folder, peer))
endpoint.connect(theirs)
far = endpoint.register_remote_memory_region("buffer", region)


def expect(seed):
    """What came."""
    if buffer[:] != pattern(seed, LENGTH):
        sys.exit(f"the bytes of transfer {seed} are not there")


if role == "passive":
    endpoint.imm_recv().wait()
    expect(1)
    buffer[:] = pattern(2, LENGTH)
    tell(folder, "changed")
    wait_for(folder, "read")
    receive = endpoint.recv((address, 0, LENGTH))
    receive.wait()
    expect(3)
    tell(folder, "seen")
else:
    buffer[:] = pattern(1, LENGTH)
    endpoint.write_with_imm([(near, far, 0, 0, LENGTH)], 7).wait()
    wait_for(folder, "changed")
    endpoint.read([(near, far, 0, 0, LENGTH)]).wait()
    expect(2)
    buffer[:] = pattern(3, LENGTH)
    tell(folder, "read")
    endpoint.send((address, 0, LENGTH)).wait()
    wait_for(folder, "seen")
print(f"{role}: {LENGTH} bytes each way", flush=True)
