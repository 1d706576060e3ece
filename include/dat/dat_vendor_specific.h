/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * dat_vendor_specific.h - what is this provider's alone: nothing
 */
#ifndef _DAT_VENDOR_SPECIFIC_H_
#define _DAT_VENDOR_SPECIFIC_H_

/* Attributes with names of their own would be here. */

#endif /* _DAT_VENDOR_SPECIFIC_H_ */
