// The same as ../dat/hosts.c by uDAPL 2.0.
#define DAT2
#include "../dat/hosts.c"
