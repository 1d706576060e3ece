"""The package ibverbs, which looks its calls up in libibverbs.so.1 by name, between two processes: one has memory, the other writes to it,
reads it, adds to a word of it and sends.

Arguments: passive or active, the folder where they meet, the address of this host.
"""

import ipaddress
import sys
import time

import ibverbs

from meeting import memory, pattern, tell, wait_for

LENGTH = 4 << 20
WORD = 8
ALL = (
    ibverbs.AccessFlags.LOCAL_WRITE
    | ibverbs.AccessFlags.REMOTE_WRITE
    | ibverbs.AccessFlags.REMOTE_READ
    | ibverbs.AccessFlags.REMOTE_ATOMIC
)

role, folder, host = sys.argv[1:]
other = "active" if role == "passive" else "passive"
context = ibverbs.get_device_list()[0].open()
zone = context.alloc_pd()
completions = context.create_cq(16)
buffer, address = memory(LENGTH)
region = zone.reg_mr(address, LENGTH, ALL)
pair = zone.create_qp(ibverbs.QPInitAttr(send_cq=completions, recv_cq=completions, qp_type=ibverbs.QPType.RC))


def index_of(host):
    """Where this host's address is in the table; the port's own GID for loopback."""
    wanted = ipaddress.ip_address("::ffff:" + host).packed
    return next((index for index in range(64) if bytes(context.query_gid(1, index)) == wanted), 0)


def next_completion():
    """The next one, which has to be a success."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for completion in completions.poll(1):
            completion.raise_for_status()
            return completion
    sys.exit("nothing completes")


def request(opcode, length, **others):
    """Posts one and waits for it."""
    pair.post_send(
        ibverbs.SendWR(
            wr_id=1,
            sg_list=[ibverbs.SGE(region, length)],
            opcode=opcode,
            send_flags=ibverbs.SendFlags.SIGNALED,
            **others,
        )
    )
    next_completion()


index = index_of(host)
own = ibverbs.local_qp_info(pair, context.query_port(1), context.query_gid(1, index), port=1, psn=7)
tell(folder, f"{role}.pair", own.to_bytes())
peer = ibverbs.QPInfo.from_bytes(wait_for(folder, f"{other}.pair"))
ibverbs.connect_rc(pair, peer, port=1, sgid_index=index, access=ALL, local_psn=7)
if role == "passive":
    pair.post_recv(ibverbs.RecvWR(wr_id=2, sg_list=[ibverbs.SGE(region, LENGTH)]))
    tell(folder, "memory", f"{address} {region.rkey}".encode())
    wait_for(folder, "written")
    if buffer[:] != pattern(1, LENGTH):
        sys.exit("what was written is not there")
    buffer[:] = pattern(2, LENGTH)
    tell(folder, "changed")
    if next_completion().byte_len != LENGTH or buffer[:] != pattern(3, LENGTH):
        sys.exit("what was sent is not there")
    tell(folder, "seen")
else:
    there = dict(zip(("remote_addr", "rkey"), map(int, wait_for(folder, "memory").split())))
    buffer[:] = pattern(1, LENGTH)
    request(ibverbs.WROpcode.RDMA_WRITE, LENGTH, **there)
    tell(folder, "written")
    wait_for(folder, "changed")
    request(ibverbs.WROpcode.RDMA_READ, LENGTH, **there)
    if buffer[:] != pattern(2, LENGTH):
        sys.exit("what was read is not what is there")
    request(ibverbs.WROpcode.ATOMIC_FETCH_AND_ADD, WORD, compare_add=5, **there)
    request(ibverbs.WROpcode.ATOMIC_FETCH_AND_ADD, WORD, compare_add=0, **there)
    first = int.from_bytes(pattern(2, 256)[:WORD], sys.byteorder)
    if int.from_bytes(buffer[:WORD], sys.byteorder) != first + 5:
        sys.exit("what was added is not there")
    buffer[:] = pattern(3, LENGTH)
    request(ibverbs.WROpcode.SEND, LENGTH)
    wait_for(folder, "seen")
print(f"{role}: {LENGTH} bytes each way", flush=True)
