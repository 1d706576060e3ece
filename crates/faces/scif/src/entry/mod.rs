//! The functions, by object. Each fetches its arguments, asks the engine and hands the result to `guard`.
//!
//! A number that is no endpoint is refused before flags without a meaning, as where a driver looks at both: that is
//! what [`known`] is for. No function trusts a pointer, so all are called `unsafe` only because C could not promise
//! anything else.

pub(crate) mod connection;
pub(crate) mod fence;
pub(crate) mod node;
pub(crate) mod poll;
pub(crate) mod remote;
pub(crate) mod stream;
pub(crate) mod window;

use core::ffi::c_int;

use nonic_scif::Descriptor;

use crate::errno::Errno;

/// What the flags of a call say; if they say nothing, the refusal of the number if that is wrong too.
#[inline]
fn known<T>(epd: c_int, flags: Result<T, Errno>) -> Result<(Descriptor, T), Errno> {
    let descriptor = Descriptor::from_number(epd);
    match flags {
        Ok(words) => Ok((descriptor, words)),
        Err(reason) => {
            descriptor.verify()?;
            Err(reason)
        }
    }
}
