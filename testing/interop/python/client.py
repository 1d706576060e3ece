"""Has 1 MB echoed by a server at the port given, in pieces, and looks at the end. With "until the end" it then says so by one
byte, and waits for the server's end, however it comes."""
import os, socket, sys

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
        print("the end")
    except (BrokenPipeError, ConnectionResetError):
        print("the end")
else:
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
