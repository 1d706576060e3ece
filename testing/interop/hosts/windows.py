"""Memory windows of a Python program, with the distribution's pyverbs: bound, given to another process, bound again, taken
out of use by their owner and by the peer.

proves: 5.4
"""

import ctypes
import os
import socket
import sys

import pyverbs.enums as e
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.wr import RecvWR, SGE, SendWR, inc_rkey

from host import ACCESS, Line, Node, check, pattern, result

LENGTH = 16384
AT = 4096
LONG = 8192
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
GUARD = 0x5A


def completion(node):
    done = 0
    while not done:
        done, completions = node.cq.poll()
    return completions[0]


def serve(line):
    """Writes and sends as told. A request that failed costs the connection: both sides make theirs anew."""
    node = Node(line)
    while (order := line.take()) is not None:
        what, seed, key, address, length = order
        if what == "write":
            status = node.write(pattern(seed)[:length], key, address)
        else:
            wr = SendWR(opcode=e.IBV_WR_SEND_WITH_INV, send_flags=e.IBV_SEND_SIGNALED, num_sge=0, imm_data=key)
            node.qp.post_send(wr)
            status = completion(node).status
        line.give(status)
        if status != e.IBV_WC_SUCCESS:
            node = Node(line)


class Owner:
    def __init__(self, line):
        self.line = line
        self.node = Node(line)
        self.memory = bytearray(LENGTH)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.open()

    def open(self):
        self.mr = MR(self.node.pd, LENGTH, ACCESS | e.IBV_ACCESS_MW_BIND, address=self.address)

    def peer(self, what, seed, key, length):
        self.memory[:] = bytes([GUARD]) * LENGTH
        self.line.give((what, seed, key, self.address + AT, length))
        return self.line.take()

    def works(self, sentence, key, seed):
        check(sentence, self.peer("write", seed, key, LONG) == e.IBV_WC_SUCCESS)
        guard = bytes([GUARD])
        check("its bytes stand in the window and nowhere else",
              bytes(self.memory) == guard * AT + pattern(seed)[:LONG] + guard * (LENGTH - AT - LONG))

    def dead(self, sentence, key):
        """The last thing of a connection: after it a new one, with everything anew."""
        check(sentence, self.peer("write", 9, key, 8) == e.IBV_WC_REM_ACCESS_ERR)
        check("and no byte has moved", bytes(self.memory) == bytes([GUARD]) * LENGTH)
        self.node = Node(self.line)
        self.open()

    def bind(self, mw, length=LONG, access=REMOTE):
        before = mw.rkey
        info = MWBindInfo(self.mr, self.address + AT if length else 0, length, access)
        self.node.qp.bind_mw(mw, MWBind(info, e.IBV_SEND_SIGNALED, wr_id=3))
        check("the key changes at once", mw.rkey != before and mw.rkey >> 8 == before >> 8)
        self.done(e.IBV_WC_BIND_MW)

    def bind_type_2(self, mw):
        wr = SendWR(opcode=e.IBV_WR_BIND_MW, send_flags=e.IBV_SEND_SIGNALED, num_sge=0)
        wr.set_bind_wr(mw, MWBindInfo(self.mr, self.address + AT, LONG, REMOTE))
        key = inc_rkey(mw.rkey)
        check("pyverbs asks for the next key", wr.rkey == key)
        self.node.qp.post_send(wr)
        self.done(e.IBV_WC_BIND_MW)
        check("the window shows the key", mw.rkey == key)
        return key

    def done(self, opcode):
        wc = completion(self.node)
        check("the request completes", wc.status == e.IBV_WC_SUCCESS and wc.opcode == opcode)


def type_1(owner):
    mw = MW(owner.node.pd, e.IBV_MW_TYPE_1)
    owner.bind(mw)
    first = mw.rkey
    owner.works("the other process writes through the window", first, 1)
    owner.bind(mw)
    owner.works("and through the next key", mw.rkey, 2)
    owner.bind(mw, length=0, access=0)
    mw.close()
    owner.dead("the first key is dead", first)


def type_2(owner):
    mw = MW(owner.node.pd, e.IBV_MW_TYPE_2)
    key = owner.bind_type_2(mw)
    owner.works("the other process writes through a window of type 2", key, 3)
    owner.node.qp.post_send(SendWR(opcode=e.IBV_WR_LOCAL_INV, send_flags=e.IBV_SEND_SIGNALED, num_sge=0, imm_data=key))
    owner.done(e.IBV_WC_LOCAL_INV)
    key = owner.bind_type_2(mw)
    owner.works("and again, under the next key", key, 4)
    owner.node.qp.post_recv(RecvWR(wr_id=5, num_sge=1, sg=[SGE(owner.address, 8, owner.mr.lkey)]))
    check("it takes the key out of use itself", owner.peer("send", 0, key, 0) == e.IBV_WC_SUCCESS)
    wc = completion(owner.node)
    check("and the receive says so", wc.status == e.IBV_WC_SUCCESS and wc.wc_flags == e.IBV_WC_WITH_INV
          and wc.imm_data in (key, socket.ntohl(key)))
    mw.close()
    owner.dead("after which the key is dead", key)


def main():
    ends = socket.socketpair()
    other = os.fork()
    if other == 0:
        ends[0].close()
        serve(Line(ends[1]))
        os._exit(0)
    ends[1].close()
    owner = Owner(Line(ends[0]))
    capable = owner.node.context.query_device().device_cap_flags
    check("the device says that it has windows", capable & e.IBV_DEVICE_MEM_WINDOW and capable & e.IBV_DEVICE_MEM_WINDOW_TYPE_2B)
    type_1(owner)
    type_2(owner)
    owner.line.give(None)
    check("the other process ends well", os.waitpid(other, 0)[1] == 0)
    sys.exit(result())


main()
