"""Echoes to one client from a child that is forked "before" or "after" the connection is accepted, on the port given."""
import os, socket, sys

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[2])))
listener.listen()


def serve(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    print("a child has answered", flush=True)
    os._exit(0)


if sys.argv[1] == "before":
    if os.fork() == 0:
        serve(listener.accept()[0])
else:
    connection = listener.accept()[0]
    if os.fork() == 0:
        listener.close()
        serve(connection)
    connection.close()
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
