/* A program with both interfaces: one file with the engine is mapped, once, and both libraries lead to it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <scif.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct search {
	struct stat engine;
	int count;
};

static int count_engine(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct search *search = argument;
	struct stat found;
	(void)size;
	if (stat(object->dlpi_name, &found) == 0 && found.st_ino == search->engine.st_ino &&
	    found.st_dev == search->engine.st_dev)
		search->count++;
	return 0;
}

int main(void)
{
	struct search search = { .count = 0 };
	Dl_info verbs, table;
	int count;
	struct ibv_device **devices = ibv_get_device_list(&count);
	uint16_t own;
	if (!devices || scif_get_nodeIDs(NULL, 0, &own) < 1) {
		printf("one of the two does not work: %s\n", strerror(errno));
		return 1;
	}
	ibv_free_device_list(devices);
	/* The table is a symbol of the engine, and the verbs library's name leads to a file that has it. */
	void *symbol = dlsym(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), "nonic_scif_table");
	if (!symbol || !dladdr(symbol, &table) || !dladdr((void *)ibv_get_device_list, &verbs)) {
		printf("the verbs library is not the engine\n");
		return 1;
	}
	if (table.dli_fbase != verbs.dli_fbase || stat(table.dli_fname, &search.engine) != 0) {
		printf("verbs are in %s, scif in %s\n", verbs.dli_fname, table.dli_fname);
		return 1;
	}
	dl_iterate_phdr(count_engine, &search);
	if (search.count != 1) {
		printf("the engine is loaded %d times\n", search.count);
		return 1;
	}
	printf("one engine\n");
	return 0;
}
