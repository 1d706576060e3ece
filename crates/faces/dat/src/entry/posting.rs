//! Posting data transfer operations. These calls take no lock of this crate and allocate nothing.

use core::ffi::c_void;

use nonic_dat::{
    CompletionFlags, DatError, DatResult, Endpoint, HandleKind, RemoteSegment, Segment, SharedReceiveQueue,
};

use crate::calls::{Context, Count, Handle, Return};
use crate::entry::{list, unsigned, with};
use crate::guard::quick_answer;
use crate::version::Version;

/// The program's list of pieces: arguments 2 and 3.
///
/// # Safety
/// See [`list`].
#[inline]
pub(crate) unsafe fn pieces<'a, V: Version>(
    count: Count,
    segments: *const c_void,
) -> DatResult<impl ExactSizeIterator<Item = Segment> + Clone + use<'a, V>> {
    // SAFETY: the caller's promise.
    let list: &'a [V::LmrTriplet] = unsafe { list(unsigned(count, 2)?, segments, (2, 3)) }?;
    Ok(list.iter().map(V::segment))
}

#[inline]
pub(crate) fn flags(bits: u32, argument: u8) -> DatResult<CompletionFlags> {
    CompletionFlags::from_bits(bits).ok_or(DatError::argument(argument))
}

/// Memory of the peer: argument 5.
///
/// # Safety
/// The pointer is NULL or leads to a triplet.
#[inline]
pub(crate) unsafe fn remote<V: Version>(pointer: *const c_void) -> DatResult<RemoteSegment> {
    // SAFETY: the caller's promise.
    let list: &[V::RmrTriplet] = unsafe { list(1, pointer, (5, 5)) }?;
    Ok(V::remote_segment(&list[0]))
}

macro_rules! posts {
    ($($name:ident is $method:ident;)*) => {$(
        /// # Safety
        /// As in C: pointers are NULL or lead to what the call expects.
        pub(crate) unsafe extern "C" fn $name<V: Version>(
            ep: Handle,
            count: Count,
            segments: *const c_void,
            cookie: Context,
            completion_flags: u32,
        ) -> Return {
            quick_answer(V::NUMBERING, || {
                with::<V, Endpoint, _>(ep, HandleKind::Endpoint, |endpoint| {
                    // SAFETY: the program's promise.
                    let pieces = unsafe { pieces::<V>(count, segments) }?;
                    endpoint.$method(pieces, cookie, flags(completion_flags, 5)?)
                })
            })
        }
    )*};
}

posts! {
    ep_post_send is post_send;
    ep_post_recv is post_receive;
}

macro_rules! remote_posts {
    ($($name:ident is $method:ident;)*) => {$(
        /// # Safety
        /// As in C: pointers are NULL or lead to what the call expects.
        pub(crate) unsafe extern "C" fn $name<V: Version>(
            ep: Handle,
            count: Count,
            segments: *const c_void,
            cookie: Context,
            remote_buffer: *const c_void,
            completion_flags: u32,
        ) -> Return {
            quick_answer(V::NUMBERING, || {
                with::<V, Endpoint, _>(ep, HandleKind::Endpoint, |endpoint| {
                    // SAFETY: the program's promise.
                    let pieces = unsafe { pieces::<V>(count, segments) }?;
                    // SAFETY: as above.
                    let mut remote = unsafe { remote::<V>(remote_buffer) }?;
                    if V::IGNORES_REMOTE_LENGTH {
                        remote.length = pieces.clone().map(|piece| piece.length).fold(0, u64::saturating_add);
                    }
                    endpoint.$method(pieces, cookie, remote, flags(completion_flags, 6)?)
                })
            })
        }
    )*};
}

remote_posts! {
    ep_post_rdma_read is post_rdma_read;
    ep_post_rdma_write is post_rdma_write;
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn srq_post_recv<V: Version>(
    srq: Handle,
    count: Count,
    segments: *const c_void,
    cookie: Context,
) -> Return {
    quick_answer(V::NUMBERING, || {
        with::<V, SharedReceiveQueue, _>(srq, HandleKind::SharedReceiveQueue, |queue| {
            // SAFETY: the program's promise.
            queue.post_receive(unsafe { pieces::<V>(count, segments) }?, cookie)
        })
    })
}
