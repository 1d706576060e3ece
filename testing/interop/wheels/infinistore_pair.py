"""InfiniStore: the server keeps what a client writes to it and reads back, block by block, each under its key.

Arguments: passive (the server) or active, the folder where they meet, the address of this side: 127.0.0.1 where the port is InfiniBand.
"""

import asyncio
import os
import socket
import sys

import infinistore
import uvloop

from meeting import has_left, memory, pattern, tell, wait_for

LENGTH = 4 << 20
BLOCK = 256 << 10

role, folder, address = sys.argv[1:4]
device = {"dev_name": "nonic0", "ib_port": 1, "link_type": "IB" if address == "127.0.0.1" else "Ethernet"}


def free_port():
    """A port that nobody has at the moment."""
    with socket.create_server((address, 0)) as listener:
        return listener.getsockname()[1]


async def until(word):
    """Serves as long as the other has not left it."""
    while not has_left(folder, word):
        await asyncio.sleep(0.02)


async def there_and_back(connection, source, target, seed):
    """Blocks written from one memory and read into the other."""
    blocks = [(f"{seed}-{number}", number * BLOCK) for number in range(LENGTH // BLOCK)]
    await connection.rdma_write_cache_async(blocks, BLOCK, source)
    await connection.rdma_read_cache_async(blocks, BLOCK, target)


if role == "passive":
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    port = free_port()
    config = infinistore.ServerConfig(service_port=port, manage_port=port, prealloc_size=1, **device)
    infinistore.register_server(loop, config)
    tell(folder, "server", f"{address} {port}".encode())
    loop.run_until_complete(until("seen"))
else:
    server, port = wait_for(folder, "server").decode().split()
    config = infinistore.ClientConfig(
        host_addr=server, service_port=int(port), connection_type=infinistore.TYPE_RDMA, **device
    )
    connection = infinistore.InfinityConnection(config)
    connection.connect()
    written, source = memory(LENGTH)
    read, target = memory(LENGTH)
    for place in source, target:
        connection.register_mr(place, LENGTH)
    for seed in range(1, 9):
        written[:] = pattern(seed, LENGTH)
        asyncio.run(there_and_back(connection, source, target, seed))
        if read[:] != pattern(seed, LENGTH):
            sys.exit(f"what was read back in round {seed} is not what was written")
    connection.close()
    tell(folder, "seen")
print(f"{role}: {LENGTH} bytes each way", flush=True)
# A server is made to be killed: at its end it destroys its log first, then what it keeps, which writes to the log.
os._exit(0)
