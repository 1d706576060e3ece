"""Has 1 MB echoed by a server at the port given, in pieces, and looks at the end. With "until the end" it then says so by one
byte, and waits for the server's end, however it comes, and for the end of what can be sent."""
import os, socket, sys, time

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(100):
    data = os.urandom(10000)
    connection.sendall(data)
    got = b""
    while len(got) < len(data):
        part = connection.recv(65536)
        assert part, "the server has ended the connection"
        got += part
    assert got == data
print("echoed", flush=True)
if sys.argv[2:] == ["until the end"]:
    try:
        connection.settimeout(20)
        connection.sendall(b".")
        while connection.recv(1):
            pass
    except ConnectionResetError:
        # That is told once.
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert connection.recv(1) == b""
    except BrokenPipeError:
        pass
    # What is sent may be taken until the other side says that nobody is there.
    resets, last = 0, time.monotonic() + 20
    while time.monotonic() < last:
        try:
            connection.send(b"x")
            time.sleep(0.001)
        except ConnectionResetError:
            resets += 1
        except BrokenPipeError:
            assert resets <= 1, resets
            print("the end")
            break
else:
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
