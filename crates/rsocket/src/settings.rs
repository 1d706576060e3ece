//! What a socket begins with: files under `/etc/rdma/rsocket`, one number each, and what is set before it is connected.

use std::sync::OnceLock;
use std::time::Duration;

const FOLDER: &str = "/etc/rdma/rsocket";

/// Requests in a queue.
pub(crate) const QUEUE_MIN: u32 = 16;
pub(crate) const QUEUE_MAX: u32 = 65534;
/// A buffer smaller than this holds too little to be worth a message.
pub(crate) const LEAST: u32 = 2048;
/// The longest buffer: a message can announce all of it.
const BUFFER_MAX: u32 = 1 << 28;
/// The longest entry that is written into the memory of a peer goes inline.
pub(crate) const INLINE_MIN: u32 = 24;
/// The longest message that goes inline, whatever is asked for.
pub(crate) const INLINE_MOST: u32 = 256;

/// Sizes of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes of the receive buffer, even.
    pub(crate) receive_buffer: u32,
    /// Bytes that it grows to in steps, each twice as long, while the peer fills it.
    pub(crate) receive_buffer_most: u32,
    /// Bytes of the send buffer.
    pub(crate) send_buffer: u32,
    /// Requests in the send queue.
    pub(crate) send_queue: u32,
    /// Receives.
    pub(crate) receive_queue: u32,
    /// Bytes of a message that go inline.
    pub(crate) inline: u32,
    /// Mappings that the peer may make.
    pub(crate) mappings: u32,
}

/// What holds for all sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) sizes: Sizes,
    /// How long who waits looks before it sleeps.
    pub(crate) polling: Duration,
    /// How long it sleeps at most before it looks again.
    pub(crate) wake_up: Duration,
    /// How long a connection is silent before a peer is asked whether it is there.
    pub(crate) keep_alive_seconds: u32,
}

impl Defaults {
    /// Read when first asked for.
    pub(crate) fn get() -> &'static Self {
        static DEFAULTS: OnceLock<Defaults> = OnceLock::new();
        DEFAULTS.get_or_init(|| Self::read(|name| number_in(&format!("{FOLDER}/{name}"))))
    }

    fn read(file: impl Fn(&str) -> Option<u32>) -> Self {
        let or = |name: &str, default: u32| file(name).unwrap_or(default);
        let receive_buffer = buffer_size(or("mem_default", 1 << 17));
        let sizes = Sizes {
            receive_buffer,
            receive_buffer_most: receive_buffer,
            send_buffer: buffer_size(or("wmem_default", 1 << 17)),
            send_queue: queue_size(or("sqsize_default", 384)),
            receive_queue: queue_size(or("rqsize_default", 384)),
            inline: or("inline_default", 64),
            mappings: crate::protocol::exact_mappings(or("iomap_size", 0)),
        };
        Self {
            sizes,
            polling: Duration::from_micros(or("polling_time", 10).into()),
            wake_up: Duration::from_millis(or("wake_up_interval", 5000).into()),
            keep_alive_seconds: number_in("/proc/sys/net/ipv4/tcp_keepalive_time").unwrap_or(7200),
        }
    }
}

/// Of a buffer that so many bytes are asked for: even, and neither too small nor too large.
pub(crate) fn buffer_size(asked: u32) -> u32 {
    if asked < LEAST { 2 * LEAST } else { asked.min(BUFFER_MAX) & !1 }
}

/// Of a queue that so many requests are asked for.
pub(crate) fn queue_size(asked: u32) -> u32 {
    asked.clamp(QUEUE_MIN, QUEUE_MAX)
}

fn number_in(path: &str) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_file_says_is_the_default_and_what_one_says_is_bounded() {
        let Defaults { sizes, polling, wake_up, .. } = Defaults::read(|_| None);
        assert_eq!((sizes.receive_buffer, sizes.send_buffer), (131_072, 131_072));
        assert_eq!((sizes.send_queue, sizes.receive_queue), (384, 384));
        assert_eq!((sizes.inline, sizes.mappings), (64, 0));
        assert_eq!((polling, wake_up), (Duration::from_micros(10), Duration::from_millis(5000)));
        let Defaults { sizes, .. } = Defaults::read(|_| Some(3));
        assert_eq!((sizes.receive_buffer, sizes.send_queue), (4096, 16));
        let Defaults { sizes, .. } = Defaults::read(|_| Some(u32::MAX));
        assert_eq!((sizes.receive_buffer, sizes.receive_queue), (1 << 28, 65534));
    }
}
