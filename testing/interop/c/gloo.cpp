// Gloo, collectives as machine learning uses them, over its transport for verbs: ranks meet in a folder, connect each with each, and
// reduce, broadcast and wait for each other.
//
//     gloo RANK RANKS FOLDER DEVICE GID-INDEX

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

static int rank, ranks;

[[noreturn]] static void fail(const char *what, size_t size, size_t place, float got, float wanted)
{
    std::printf("FAIL rank %d: %s of %zu, place %zu: %f, expected %f\n", rank, what, size, place, got, wanted);
    std::exit(1);
}

// An algorithm of Gloo's is never destroyed here: its destructor ends the program unless every send has ended by then, and a barrier
// or the last step of a ring waits only for what comes in.
template <typename Algorithm, typename... Rest>
static void run(const std::shared_ptr<gloo::Context> &context, Rest... rest)
{
    (new Algorithm(context, rest...))->run();
}

static void reduce(const std::shared_ptr<gloo::Context> &context, size_t size, int turn)
{
    // What a peer writes into as long as it likes lives as long.
    auto &ring = *new std::vector<float>(size), &halving = *new std::vector<float>(size), &told = *new std::vector<float>(size);
    for (size_t i = 0; i < size; i++) {
        ring[i] = halving[i] = static_cast<float>(rank + static_cast<int>(i % 100) + turn);
        told[i] = static_cast<float>(rank);
    }
    const int count = static_cast<int>(size), last = ranks - 1;
    run<gloo::AllreduceRingChunked<float>>(context, std::vector<float *>{ring.data()}, count);
    run<gloo::AllreduceHalvingDoubling<float>>(context, std::vector<float *>{halving.data()}, count);
    run<gloo::BroadcastOneToAll<float>>(context, std::vector<float *>{told.data()}, count, last);
    for (size_t i = 0; i < size; i++) {
        float wanted = static_cast<float>(ranks * last / 2 + ranks * (static_cast<int>(i % 100) + turn));
        if (ring[i] != wanted)
            fail("sum by ring", size, i, ring[i], wanted);
        if (halving[i] != wanted)
            fail("sum by halves", size, i, halving[i], wanted);
        if (told[i] != static_cast<float>(last))
            fail("broadcast", size, i, told[i], static_cast<float>(last));
    }
}

int main(int count, char **words)
{
    if (count != 6) {
        std::fprintf(stderr, "usage: %s RANK RANKS FOLDER DEVICE GID-INDEX\n", words[0]);
        return 2;
    }
    rank = std::atoi(words[1]);
    ranks = std::atoi(words[2]);
    gloo::rendezvous::FileStore store(words[3]);
    auto device = gloo::transport::ibverbs::CreateDevice({words[4], 1, std::atoi(words[5])});
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    for (size_t size : {1, 7, 1000, 1 << 20})
        for (int turn = 0; turn < 3; turn++)
            reduce(context, size, turn);
    auto &barrier = *new gloo::BarrierAllToAll(context);
    for (int i = 0; i < 100; i++)
        barrier.run();
    // Nobody goes while another waits for it.
    store.set("end" + std::to_string(rank), {1});
    for (int i = 0; i < ranks; i++)
        store.wait({"end" + std::to_string(i)}, std::chrono::seconds(20));
    std::printf("rank %d of %d: all that was reduced is right\n", rank, ranks);
    // In order, but without destroying what stands in this function.
    std::exit(0);
}
