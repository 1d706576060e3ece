// Opens the adapter through the distribution's registry and prints what that answers.

#include <stdio.h>

#include <dat2/udat.h>

int main(void)
{
    DAT_EVD_HANDLE async_evd = NULL;
    DAT_IA_HANDLE ia;
    DAT_RETURN opened = dat_ia_open("nonic", 8, &async_evd, &ia);
    printf("0x%08x\n", opened);
    return opened == DAT_SUCCESS ? dat_ia_close(ia, DAT_CLOSE_DEFAULT) != DAT_SUCCESS : 0;
}
