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
		dlclose(library);
	}
	printf("%d calls, closed and loaded again\n", argc - 2);
	return 0;
}
