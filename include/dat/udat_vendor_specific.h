/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * udat_vendor_specific.h - what a vendor adds to the interface: nothing here
 */
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_

#endif
