//! Whether any copy of an endpoint is still open, here or in another process: the kernel drops a descriptor from an epoll
//! instance when the last copy is closed, and shows in `/proc` what is left.

use std::sync::{Mutex, PoisonError};

use nonic_sys::{AsFd, AsRawFd, BorrowedFd, Epoll, PerProcess, RawFd};

use crate::identity::cookie_of;

/// Endpoints of one instance: reading what is left takes as long as there are many.
const GROUP: usize = 32;

#[derive(Default)]
struct Groups {
    groups: Vec<(Epoll, Vec<u64>)>,
}

static GROUPS: PerProcess<Mutex<Groups>> = PerProcess::new();

/// Watches the endpoint that `number` is from now on; whether that can be done.
pub(crate) fn watch(number: BorrowedFd<'_>, cookie: u64) -> bool {
    let mut groups = GROUPS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if groups.groups.iter().any(|(_, cookies)| cookies.contains(&cookie)) {
        return true;
    }
    if groups.groups.iter().all(|(_, cookies)| cookies.len() >= GROUP) {
        let Ok(epoll) = Epoll::new() else { return false };
        groups.groups.push((epoll, Vec::new()));
    }
    let Some((epoll, cookies)) = groups.groups.iter_mut().find(|(_, cookies)| cookies.len() < GROUP) else {
        return false;
    };
    // The number may have been reused since it was looked at.
    let same = cookie_of(number.as_raw_fd()) == Ok(cookie);
    if same && epoll.add_silently(number, cookie).is_ok() {
        cookies.push(cookie);
        return true;
    }
    false
}

/// Whether this process watches the endpoint.
pub(crate) fn is_watched(cookie: u64) -> bool {
    let Some(groups) = GROUPS.get() else { return false };
    let groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
    groups.groups.iter().any(|(_, cookies)| cookies.contains(&cookie))
}

/// Whether a watched endpoint has a copy left; forgets it if not.
pub(crate) fn is_open(cookie: u64) -> bool {
    let Some(groups) = GROUPS.get() else { return false };
    let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((epoll, cookies)) = groups.groups.iter_mut().find(|(_, cookies)| cookies.contains(&cookie))
    else {
        return false;
    };
    let open = is_in(epoll.as_fd().as_raw_fd(), cookie);
    if !open {
        cookies.retain(|other| *other != cookie);
    }
    open
}

/// Whether `/proc` shows data in an epoll instance. Where there is no `/proc` it counts as open.
fn is_in(epoll: RawFd, data: u64) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")) else { return true };
    text.lines().any(|line| {
        let data_text = line.split_once("data:").map(|(_, rest)| rest.split_ascii_whitespace().next());
        data_text.flatten().and_then(|text| u64::from_str_radix(text, 16).ok()) == Some(data)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_sys::{open_stream, socket_cookie};

    #[test]
    fn an_endpoint_is_open_until_its_last_copy_is_closed() {
        let sockets: Vec<_> = (0..GROUP + 2).map(|_| open_stream().unwrap()).collect();
        let cookies: Vec<u64> =
            sockets.iter().map(|socket| socket_cookie(socket.as_raw_fd()).unwrap()).collect();
        for (socket, cookie) in sockets.iter().zip(&cookies) {
            assert!(watch(socket.as_fd(), *cookie) && watch(socket.as_fd(), *cookie));
        }
        let copy = sockets[GROUP].try_clone().unwrap();
        drop(sockets);
        let open: Vec<u64> = cookies.iter().copied().filter(|cookie| is_open(*cookie)).collect();
        assert_eq!(open, [cookies[GROUP]]);
        drop(copy);
        assert!(!is_open(cookies[GROUP]));
    }
}
