/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * udat_config.h - the version of uDAPL that a program is compiled for
 */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/* Which provider dat_ia_open asks for. This library is safe for threads either way. */
#define DAT_THREADSAFE DAT_FALSE

#endif /* _UDAT_CONFIG_H_ */
