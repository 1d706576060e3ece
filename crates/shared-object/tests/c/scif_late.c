/* Loads libscif by the name given, finds every call by name and version, unloads it and loads it again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <scif.h>
#include <stdio.h>
#include <string.h>

static void *load(const char *name, int count, char **calls)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("%s\n", dlerror());
		return NULL;
	}
	for (int i = 0; i < count; i++) {
		void *plain = dlsym(library, calls[i]);
		if (!plain || plain != dlvsym(library, calls[i], "SCIF_0.0")) {
			printf("no %s, or not under its version\n", calls[i]);
			return NULL;
		}
	}
	return library;
}

int main(int argc, char **argv)
{
	for (int turn = 0; turn < 2; turn++) {
		void *library = load(argv[1], argc - 2, argv + 2);
		if (!library)
			return 1;
		uint16_t own;
		int (*nodes)(uint16_t *, int, uint16_t *);
		*(void **)&nodes = dlsym(library, "scif_get_nodeIDs");
		if (nodes(NULL, 0, &own) < 1) {
			printf("scif_get_nodeIDs: %s\n", strerror(errno));
			return 1;
		}
		scif_epd_t (*open)(void);
		int (*close)(scif_epd_t);
		*(void **)&open = dlsym(library, "scif_open");
		*(void **)&close = dlsym(library, "scif_close");
		scif_epd_t epd = open();
		if (epd < 0 || close(epd) != 0 || close(epd) != -1 || errno != EINVAL) {
			printf("scif_open gave %d: %s\n", epd, strerror(errno));
			return 1;
		}
		dlclose(library);
	}
	printf("%d calls, closed and loaded again\n", argc - 2);
	return 0;
}
