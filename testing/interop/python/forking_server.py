"""Echoes to one client on the port given, in a child: "before" and "after" say whether it is forked before the connection is accepted
or after it. "used" has the parent answer first, "both" the parent first and last, "exec" has another program answer, "close" has
the child never use the connection, and "look" has it ask for
what there is while the parent waits for that. In "killed" the child is killed after 1 MB and a byte, in "orphaned" the
parent is."""
import os, select, signal, socket, sys

mode = sys.argv[1]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[2])))
listener.listen()


def echo(connection, most=sys.maxsize):
    """Until the end, or until exactly so many bytes have gone."""
    done = 0
    while done < most and (data := connection.recv(min(65536, most - done))):
        connection.sendall(data)
        done += len(data)
    return done


def serve(connection, most=sys.maxsize):
    echo(connection, most)
    connection.close()
    print("a child has answered", flush=True)
    os._exit(0)


if mode == "before":
    if os.fork() == 0:
        # Who waits first has the stream that listens; from here on there is one.
        select.select([listener], [], [], 0)
        print("a child waits", flush=True)
        serve(listener.accept()[0])
else:
    connection, peer = listener.accept()
    used = mode in ("used", "both", "exec", "look")
    if used:
        assert echo(connection, 5000) == 5000
    child = os.fork()
    if child == 0:
        listener.close()
        assert connection.getpeername() == peer, connection.getpeername()
        if mode == "look":
            select.select([connection], [connection], [], 0)
        if mode in ("close", "look"):
            os._exit(0)
        if mode == "exec":
            os.dup2(connection.fileno(), 0)
            os.dup2(connection.fileno(), 1)
            print("another program has answered", file=sys.stderr, flush=True)
            os.execlp("cat", "cat")
        if mode in ("killed", "orphaned"):
            assert echo(connection, 1_000_000) == 1_000_000
            assert connection.recv(1) == b"."
            os.kill(os.getpid() if mode == "killed" else os.getppid(), signal.SIGKILL)
            try:
                print("the child reads", connection.recv(1), flush=True)
            except ConnectionResetError:
                print("the child has no connection any more", flush=True)
            os._exit(0)
        serve(connection, 500_000 if mode == "both" else sys.maxsize)
    if mode == "both":
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert connection.getpeername() == peer
    if mode in ("both", "close", "look"):
        echo(connection)
        print("the parent has answered", flush=True)
    connection.close()
if mode == "killed":
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
    print("the child was killed", flush=True)
elif mode != "both":
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
