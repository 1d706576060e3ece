//! Sending and receiving, with the errors of TCP.

use nonic_rsocket::{Error, Result, SharedSlice, Stream};
use nonic_sys::RawFd;

use crate::{Way, table};

/// Flags that a stream knows; others change nothing about it, but for those that are refused.
const REFUSED: i32 = libc::MSG_OOB;

/// Receives into several places; 0 after the end. [`Way::Kernel`]: there is no connection, or it is the kernel's.
pub fn receive(number: RawFd, places: &[SharedSlice<'_>], flags: i32) -> Result<Way<usize>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    let Way::Done(stream) = socket.stream(number)? else { return Ok(Way::Kernel) };
    socket.touch();
    if flags & REFUSED != 0 {
        return Err(Error::new(libc::EINVAL));
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Error::new(libc::EAGAIN));
    }
    let received = if flags & libc::MSG_PEEK != 0 {
        stream.peek(places, flags)
    } else {
        receive_into(stream, places, flags)
    };
    match received {
        Ok(count) => Ok(Way::Done(count)),
        // A child uses it, too: it is the kernel's since just now.
        Err(error) if error.errno() == libc::ESTALE => Ok(Way::Kernel),
        Err(error) => {
            let waits = matches!(error.errno(), libc::EAGAIN | libc::EINTR);
            if !waits {
                // It is told now, and whoever sends is told no more of it.
                stream.take_error();
            }
            Err(as_tcp(error))
        }
    }
}

fn receive_into(stream: &Stream, places: &[SharedSlice<'_>], flags: i32) -> Result<usize> {
    let mut count = 0;
    for place in places.iter().filter(|place| !place.is_empty()) {
        // What has come goes on into the next place; only what was asked for in all is waited for.
        let wait = if count > 0 && flags & libc::MSG_WAITALL == 0 { libc::MSG_DONTWAIT } else { 0 };
        match stream.receive(*place, flags | wait) {
            Ok(got) => {
                count += got;
                if got < place.length() {
                    break;
                }
            }
            Err(_) if count > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Sends what stands in several places. `EPIPE` where nothing is taken any more; before that, once, `ECONNRESET` if the connection broke
/// and nobody was told.
pub fn send(number: RawFd, slices: &[SharedSlice<'_>], flags: i32) -> Result<Way<usize>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    let Way::Done(stream) = socket.stream(number)? else { return Ok(Way::Kernel) };
    socket.touch();
    if flags & REFUSED != 0 {
        return Err(Error::new(libc::EOPNOTSUPP));
    }
    let all: usize = slices.iter().map(|slice| slice.length()).sum();
    if all == 0 {
        return Ok(Way::Done(0));
    }
    let sent = stream.send(slices, flags);
    if !matches!(sent, Ok(count) if count == all) {
        socket.note_blocked();
    }
    match sent {
        Ok(count) => Ok(Way::Done(count)),
        Err(error) => match error.errno() {
            libc::ESTALE => Ok(Way::Kernel),
            libc::ECONNRESET if stream.take_error() == 0 => Err(Error::new(libc::EPIPE)),
            _ => Err(as_tcp(error)),
        },
    }
}

/// Bytes that can be received now.
pub fn waiting(number: RawFd) -> Result<Way<usize>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    Ok(match socket.stream(number)? {
        Way::Done(stream) => Way::Done(stream.waiting()),
        Way::Kernel => Way::Kernel,
    })
}

fn as_tcp(error: Error) -> Error {
    match error.errno() {
        libc::EIO | libc::EBADF => Error::new(libc::ECONNRESET),
        _ => error,
    }
}
