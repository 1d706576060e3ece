// As an offload runtime uses SCIF: a pipe to itself through its own node, poll on two descriptors with a limit of 500 ms,
// shared anonymous memory registered, its own ports and those of the daemons by name. C++, old names of the flags.

#include <scif.h>

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

static const uint16_t service_ports[] = {SCIF_COI_PORT_0, SCIF_COI_PORT_1, SCIF_COI_PORT_9, MPSSD_CRED, MIC_NOTIFY};

class connection {
public:
    connection() : m_epd(SCIF_OPEN_FAILED) {}
    explicit connection(scif_epd_t epd) : m_epd(epd) {}
    ~connection()
    {
        if (m_epd != SCIF_OPEN_FAILED)
            scif_close(m_epd);
    }
    bool open() { return (m_epd = scif_open()) != SCIF_OPEN_FAILED; }
    scif_epd_t epd() const { return m_epd; }
    bool send(const void *bytes, int length) const
    {
        return scif_send(m_epd, const_cast<void *>(bytes), length, SCIF_SEND_BLOCK) == length;
    }
    bool receive(void *bytes, int length) const { return scif_recv(m_epd, bytes, length, SCIF_RECV_BLOCK) == length; }

private:
    scif_epd_t m_epd;
};

static bool wait_on(scif_epd_t one, scif_epd_t other, short *which)
{
    struct pollfd set[2];
    std::memset(set, 0, sizeof set);
    set[0].fd = one;
    set[0].events = POLLIN;
    set[1].fd = other;
    set[1].events = POLLIN;
    if (poll(set, 2, 500) <= 0)
        return false;
    *which = set[0].revents & POLLIN ? 0 : 1;
    return true;
}

static int connect_without_waiting(scif_epd_t epd, struct scif_portID *there)
{
    fcntl(epd, F_SETFL, fcntl(epd, F_GETFL) | O_NONBLOCK);
    int result = scif_connect(epd, there);
    return result == -1 && errno == EINPROGRESS ? 0 : -1;
}

int main()
{
    uint16_t nodes[32], self;
    int count = scif_get_nodeIDs(nodes, 32, &self);
    connection listener, out;
    if (count < 1 || !listener.open() || !out.open())
        return 1;
    int port = scif_bind(listener.epd(), 0);
    if (port < 0 || scif_listen(listener.epd(), 32))
        return 2;
    portID_t there;
    there.node = self;
    there.port = static_cast<uint16_t>(port);
    if (scif_bind(out.epd(), service_ports[0]) != -1 || (errno != EACCES && errno != EINVAL))
        return 3;
    // The listener's queue takes the request, then the same thread accepts it.
    struct scif_portID peer;
    scif_epd_t accepted = -1;
    if (connect_without_waiting(out.epd(), &there))
        return 4;
    if (scif_accept(listener.epd(), &peer, &accepted, ACCEPT_SYNC))
        return 5;
    connection in(accepted);
    if (scif_connect(out.epd(), &there) < 0 && errno != EISCONN)
        return 6;
    short which = -1;
    if (!out.send("wake", 5) || !wait_on(listener.epd(), in.epd(), &which) || which != 1)
        return 7;
    char text[8];
    if (!in.receive(text, 5) || std::strcmp(text, "wake"))
        return 8;
    void *shared = mmap(0, 0x4000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    off_t window = scif_register(in.epd(), shared, 0x4000, 0, SCIF_PROT_READ | SCIF_PROT_WRITE, 0);
    if (window == SCIF_REGISTER_FAILED)
        return 9;
    if (scif_vwriteto(out.epd(), text, 5, window + 0x1ffe, SCIF_RMA_SYNC))
        return 10;
    if (std::memcmp(static_cast<char *>(shared) + 0x1ffe, "wake", 5))
        return 11;
    std::puts("works");
    return 0;
}
