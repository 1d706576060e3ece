/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * udat_vendor_specific.h - what is this provider's alone, for user programs: nothing
 */
#ifndef _UDAT_VENDOR_SPECIFIC_H_
#define _UDAT_VENDOR_SPECIFIC_H_

/* Attributes with names of their own would be here. */

#endif /* _UDAT_VENDOR_SPECIFIC_H_ */
