/* Loads libdat by the name given, finds every call by name and version, opens an adapter, unloads it and loads it again. */
#define _GNU_SOURCE
#include <dat/udat.h>
#include <dlfcn.h>
#include <stdio.h>

static void *load(const char *name, int count, char **calls)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("%s\n", dlerror());
		return NULL;
	}
	for (int i = 0; i < count; i++) {
		void *plain = dlsym(library, calls[i]);
		if (!plain || plain != dlvsym(library, calls[i], "DAT_1.2")) {
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
		DAT_RETURN (*open)(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *, DAT_UINT32, DAT_UINT32,
				   DAT_BOOLEAN);
		DAT_RETURN (*close)(DAT_IA_HANDLE, DAT_CLOSE_FLAGS);
		*(void **)&open = dlsym(library, "dat_ia_openv");
		*(void **)&close = dlsym(library, "dat_ia_close");
		DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
		DAT_IA_HANDLE ia;
		DAT_RETURN answer = open("nonic", 8, &evd, &ia, 1, 2, DAT_FALSE);
		if (answer == DAT_SUCCESS)
			answer = close(ia, DAT_CLOSE_GRACEFUL_FLAG);
		if (answer != DAT_SUCCESS) {
			printf("dat_ia_openv answered %#x\n", answer);
			return 1;
		}
		dlclose(library);
	}
	printf("%d calls, closed and loaded again\n", argc - 2);
	return 0;
}
