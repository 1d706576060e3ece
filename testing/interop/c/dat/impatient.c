// A message that nobody is ready for, where the program does not want to wait for ever (DAPL_RNR_RETRY): it fails, breaks
// the connection and moves nothing.

#include "ends.h"

int main(int argc, char **argv)
{
    setenv("DAPL_RNR_RETRY", "1", 1);
    begin(argc, argv);
    connect_ends();
    chapter("a receiver that is not ready");
    CHECK("dto", "with a receive a message arrives", talks());
    at_far(fill_room, 0, 128, 1);
    fill(near->room, 64, 2);
    DAT_LMR_TRIPLET p = piece(near->local, near->room, 64);
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(1), 0));
    MUST(dat_ep_post_send(near->ep, 1, &p, cookie(2), 0));
    struct done d = next_done(near->requests);
    CHECK("dto", "without one it fails, and says why", d.cookie == 1 && d.status == DAT_DTO_ERR_RECEIVER_NOT_READY);
    d = next_done(near->requests);
    CHECK("dto", "... what is behind it is flushed", d.cookie == 2 && d.status == DAT_DTO_ERR_FLUSHED);
    CHECK("dto", "... both ends are broken", both_broken());
    CHECK("dto", "... and no byte is placed", at_far(room_filled, 0, 128, 1));
    connect_again();
    CHECK("dto", "the next connection is good", talks());
    part();
    return end();
}
