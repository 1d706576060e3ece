/* The provider libraries of real devices, which many programs link, load on top of ours: every symbol they want is there
 * under the version they want, and what they do while being loaded is taken. */

#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>

int main(int count, char **names)
{
	CHECK("ours is in the process", ibv_fork_init() == 0);
	for (int i = 1; i < count; i++) {
		void *library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
		checks++;
		if (!library) {
			fprintf(stderr, "%s does not load: %s\n", names[i], dlerror());
			return 1;
		}
	}
	void *self = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	CHECK("programs that load late find it by name", self);
	CHECK("and its functions by version", dlvsym(self, "ibv_reg_mr", "IBVERBS_1.1") == (void *)ibv_reg_mr);
	CHECK("by a later version", dlvsym(self, "ibv_reg_dmabuf_mr", "IBVERBS_1.12"));
	CHECK("by the oldest, which is another function", dlvsym(self, "ibv_reg_mr", "IBVERBS_1.0") &&
								 dlvsym(self, "ibv_reg_mr", "IBVERBS_1.0") != (void *)ibv_reg_mr);
	CHECK("and not by one that never was", !dlvsym(self, "ibv_reg_mr", "IBVERBS_1.12"));
	return finish();
}
