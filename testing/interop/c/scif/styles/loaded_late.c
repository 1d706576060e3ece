// As monitors and drivers use SCIF: the library is loaded when the program runs, by either name, and each call is looked
// up. The program itself is not linked with it.

#define _GNU_SOURCE
#include <scif.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static struct {
    scif_epd_t (*open)(void);
    int (*close)(scif_epd_t);
    int (*bind)(scif_epd_t, uint16_t);
    int (*listen)(scif_epd_t, int);
    int (*connect)(scif_epd_t, struct scif_portID *);
    int (*accept)(scif_epd_t, struct scif_portID *, scif_epd_t *, int);
    int (*send)(scif_epd_t, void *, int, int);
    int (*recv)(scif_epd_t, void *, int, int);
    int (*get_node_ids)(uint16_t *, int, uint16_t *);
    int (*vreadfrom)(scif_epd_t, void *, size_t, off_t, int);
    off_t (*window)(scif_epd_t, void *, size_t, off_t, int, int);
} scif;

static const struct {
    void *pointer;
    const char *name;
} SYMBOLS[] = {
    {&scif.open, "scif_open"},           {&scif.close, "scif_close"},
    {&scif.bind, "scif_bind"},           {&scif.listen, "scif_listen"},
    {&scif.connect, "scif_connect"},     {&scif.accept, "scif_accept"},
    {&scif.send, "scif_send"},           {&scif.recv, "scif_recv"},
    {&scif.get_node_ids, "scif_get_nodeIDs"}, {&scif.vreadfrom, "scif_vreadfrom"},
    {&scif.window, "scif_register"},
};

static int use(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s: %s\n", name, dlerror());
        return 1;
    }
    for (unsigned i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *symbol = dlsym(library, SYMBOLS[i].name);
        if (!symbol || symbol != dlvsym(library, SYMBOLS[i].name, "SCIF_0.0")) {
            printf("%s: no %s\n", name, SYMBOLS[i].name);
            return 1;
        }
        memcpy(SYMBOLS[i].pointer, &symbol, sizeof symbol);
    }
    static _Alignas(4096) char page[4096] = "read from the card";
    struct scif_portID there, peer;
    scif_epd_t listener = scif.open(), near = scif.open(), far;
    int port = scif.bind(listener, 0);
    char text[32];
    if (port < 0 || scif.listen(listener, 1) || scif.get_node_ids(NULL, 0, &there.node) < 1)
        return 2;
    there.port = (uint16_t)port;
    fcntl(near, F_SETFL, O_NONBLOCK);
    if (scif.connect(near, &there) != -1 || scif.accept(listener, &peer, &far, 1) || scif.connect(near, &there) < 0)
        return 3;
    off_t window = scif.window(far, page, sizeof page, 0, SCIF_PROT_READ, 0);
    if (window < 0 || scif.vreadfrom(near, text, 19, window, SCIF_RMA_SYNC) || strcmp(text, page))
        return 4;
    if (scif.send(near, text, 19, 1) != 19 || scif.recv(far, text, 19, 1) != 19)
        return 5;
    return scif.close(near) || scif.close(far) || scif.close(listener);
}

int main(void)
{
    int failed = use("libscif.so.0");
    failed = failed ? failed : use("libscif.so");
    if (!failed)
        puts("works");
    return failed;
}
