/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dat_vendor_specific.h - what a vendor adds to the interface: nothing here
 */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

#endif
