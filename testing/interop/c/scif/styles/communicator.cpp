// As a small C++ communicator uses SCIF: templates over windows, exceptions for refusals, readfrom and writeto between
// registered buffers, SCIF's constants as template and default arguments.

#include <scif.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <fcntl.h>

template <typename T>
static T checked(T result, T failed, const char *what)
{
    if (result == failed)
        throw std::runtime_error(what);
    return result;
}

template <typename T, int protection = SCIF_PROT_READ | SCIF_PROT_WRITE>
class window {
public:
    window(scif_epd_t epd, size_t count) : m_epd(epd), m_length((count * sizeof(T) + 0xfff) & ~size_t(0xfff))
    {
        if (posix_memalign(reinterpret_cast<void **>(&m_data), 0x1000, m_length))
            throw std::bad_alloc();
        m_offset = checked(scif_register(epd, m_data, m_length, 0, protection, 0), SCIF_REGISTER_FAILED, "register");
    }
    ~window()
    {
        scif_unregister(m_epd, m_offset, m_length);
        free(m_data);
    }
    T &operator[](size_t i) { return m_data[i]; }
    off_t offset(size_t i = 0) const { return m_offset + static_cast<off_t>(i * sizeof(T)); }

private:
    scif_epd_t m_epd;
    size_t m_length;
    T *m_data;
    off_t m_offset;
};

int main()
{
    try {
        scif_epd_t listener = checked(scif_open(), SCIF_OPEN_FAILED, "open"), near = scif_open(), far;
        struct scif_portID there, peer;
        there.port = static_cast<uint16_t>(checked(scif_bind(listener, 0), -1, "bind"));
        checked(scif_listen(listener, 16), -1, "listen");
        checked(scif_get_nodeIDs(0, 0, &there.node), -1, "nodes");
        fcntl(near, F_SETFL, O_NONBLOCK);
        scif_connect(near, &there);
        checked(scif_accept(listener, &peer, &far, SCIF_ACCEPT_SYNC), -1, "accept");
        checked(scif_connect(near, &there), -1, "connect");
        window<double> here(near, 1000), other(far, 1000);
        for (int i = 0; i < 1000; i++)
            here[i] = i * 0.5;
        checked(scif_writeto(near, here.offset(1), 100 * sizeof(double), other.offset(7), SCIF_RMA_SYNC), -1, "writeto");
        checked(scif_readfrom(near, here.offset(500), sizeof(double), other.offset(8), SCIF_RMA_SYNC | SCIF_RMA_ORDERED), -1,
                "readfrom");
        if (other[7] != 0.5 || here[500] != 1.0)
            throw std::runtime_error("other values");
        scif_close(near);
        scif_close(far);
        scif_close(listener);
    } catch (const std::exception &failed) {
        std::printf("%s: errno %d\n", failed.what(), errno);
        return 1;
    }
    std::puts("works");
    return 0;
}
