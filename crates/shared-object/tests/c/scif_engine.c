/* Is the engine that libscif found the file given? */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <scif.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	uint16_t own;
	int count = scif_get_nodeIDs(NULL, 0, &own);
	if (count < 1) {
		perror("scif_get_nodeIDs");
		return 1;
	}
	/* Only what is loaded already is found this way. */
	if (argc < 2 || !dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) {
		printf("the engine is another file: %s\n", dlerror());
		return 1;
	}
	return 0;
}
