/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * udat_config.h - the version of the interface that a program asks for when it opens an interface adapter
 */
#ifndef _UDAT_CONFIG_H_
#define _UDAT_CONFIG_H_

#define DAT_VERSION_MAJOR 1
#define DAT_VERSION_MINOR 2

/* The entry of dat.conf that is asked for. The library is safe for threads either way. */
#define DAT_THREADSAFE DAT_FALSE

#endif
