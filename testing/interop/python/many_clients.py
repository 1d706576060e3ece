"""Fifty clients of an asyncio server, in one process. The argument is the port; prints how many connections TCP has."""
import asyncio, os, sys

PORT = int(sys.argv[1])


def established():
    lines = open("/proc/self/net/tcp").read().splitlines()[1:]
    return sum(1 for line in lines if line.split()[3] == "01" and line.split()[1].endswith(":%04X" % PORT))


async def main():
    met = asyncio.Event()
    count = most = 0

    async def serve(reader, writer):
        nonlocal count, most
        count += 1
        most = max(most, established())
        if count == 50:
            met.set()
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def client(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        await met.wait()
        for _ in range(10):
            data = os.urandom(20000 + number)
            writer.write(data)
            await writer.drain()
            assert await reader.readexactly(len(data)) == data
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    await asyncio.wait_for(asyncio.gather(*[client(number) for number in range(50)]), 60)
    server.close()
    print("all 50 were answered,", most, "over TCP")


asyncio.run(main())
