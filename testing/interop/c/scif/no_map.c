// Where a process cannot read the map of its own memory (a folder without /proc), no memory can be registered, and everything else
// works.

#include "far.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    connect_ends();
    for (int fixed = 0; fixed < 2; fixed++) {
        CHECK_REFUSED("SCIF-10", "memory cannot be registered", scif_register(epd, near_room, PAGE, 0x1000, BOTH, fixed ? FIXED : 0),
                      ENOMEM);
        CHECK_REFUSED("SCIF-10", "... and there is no window", scif_unregister(epd, 0x1000, PAGE), ENXIO);
    }
    CHECK_REFUSED("SCIF-10", "a wrong call is refused as ever", scif_register(epd, near_room, PAGE, 0x1000, 0, FIXED), EINVAL);
    CHECK_REFUSED("SCIF-10", "... and memory that is not there", scif_send(epd, (void *)8, 64, 1), EFAULT);
    CHECK_REFUSED("SCIF-10", "the peer's memory neither", at_far(FAR_REGISTER, 0, PAGE, 0x1000, BOTH, FIXED), ENOMEM);
    fill(near_room, 3000, 5);
    CHECK_DONE("scif 2.6", "bytes are sent", scif_send(epd, near_room, 3000, SCIF_SEND_BLOCK), 3000);
    CHECK_DONE("scif 2.6", "... and come", at_far(FAR_RECV, 3000, 5, SCIF_RECV_BLOCK), 3000);
    return end();
}
