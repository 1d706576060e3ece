//! Options of stream sockets (`getsockopt(2)`).

use std::sync::Arc;
use std::time::Duration;

use nonic_rdma_cm::IdOption;

use super::{Phase, Stream};
use crate::options::{RDMA_INLINE, RDMA_MAPPINGS, RDMA_RECEIVE_QUEUE, RDMA_SEND_QUEUE, SOL_RDMA, Value};
use crate::protocol::exact_mappings;
use crate::settings::{Defaults, QUEUE_MAX, Sizes, buffer_size, queue_size};
use crate::waiting::Look;
use crate::{Error, Result};

/// Bytes of a segment, for those who ask.
const SEGMENT: i32 = 2048;

/// What was set.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) sizes: Sizes,
    reuse_address: bool,
    keep_alive: bool,
    keep_idle_seconds: u32,
    /// Switch and seconds. Nobody obeys it: a close always waits until what was sent has gone.
    linger: [i32; 2],
    out_of_band_inline: bool,
    no_delay: bool,
    only_v6: bool,
}

impl Default for Options {
    fn default() -> Self {
        let defaults = Defaults::get();
        Self {
            sizes: defaults.sizes,
            reuse_address: false,
            keep_alive: false,
            keep_idle_seconds: defaults.keep_alive_seconds,
            linger: [0; 2],
            out_of_band_inline: false,
            no_delay: false,
            only_v6: false,
        }
    }
}

impl Options {
    /// Those that a connection has of the socket that accepted it.
    pub(super) fn inherited(&self) -> Self {
        Self { sizes: self.sizes, ..Self::default() }
    }

    pub(super) fn ask_after(&mut self, seconds: u32) {
        (self.keep_alive, self.keep_idle_seconds) = (true, seconds);
    }

    pub(super) fn keep_alive_period(&self) -> Option<Duration> {
        self.keep_alive.then(|| Duration::from_secs(self.keep_idle_seconds.into()))
    }
}

impl Stream {
    /// Sets an option.
    pub fn set_option(self: &Arc<Self>, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let number = Value::number_of(value);
        let mut state = self.lock();
        let (phase, has_buffers) = (state.phase, state.link.is_some());
        let options = &mut state.options;
        let sizes = &mut options.sizes;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                let on = number? != 0;
                if let Err(error) = self.id.set_option(IdOption::ReuseAddress(on))
                    && phase == Phase::Idle
                    && self.id.source().is_none()
                {
                    return Err(error.into());
                }
                options.reuse_address = on;
            }
            // What is there already keeps its size.
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF) if has_buffers => drop(number?),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                sizes.receive_buffer = doubled(number?);
                sizes.receive_buffer_most = sizes.receive_buffer;
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.send_buffer = doubled(number?),
            (libc::SOL_SOCKET, libc::SO_LINGER) => options.linger = Value::pair_of(value)?,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
                options.keep_alive = number? != 0;
                drop(state);
                return self.start_keep_alive();
            }
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.out_of_band_inline = number? != 0,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG) => drop(number?),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                let seconds = u32::try_from(number?).ok().filter(|seconds| *seconds > 0);
                options.keep_idle_seconds = seconds.ok_or(Error::new(libc::EINVAL))?;
                drop(state);
                return self.start_keep_alive();
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = number? != 0,
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                let on = number? != 0;
                self.id.set_option(IdOption::AddressFamilyOnly(on))?;
                options.only_v6 = on;
            }
            (SOL_RDMA, _) => {
                if !matches!(phase, Phase::Idle | Phase::Listening) {
                    return Err(Error::new(libc::EINVAL));
                }
                let number = number?.cast_unsigned();
                match name {
                    RDMA_SEND_QUEUE => sizes.send_queue = queue_size(number),
                    RDMA_RECEIVE_QUEUE => sizes.receive_queue = queue_size(number),
                    RDMA_INLINE => sizes.inline = number.min(QUEUE_MAX),
                    RDMA_MAPPINGS => sizes.mappings = exact_mappings(number.min(QUEUE_MAX)),
                    _ => return Err(Error::new(libc::ENOTSUP)),
                }
            }
            _ => return Err(Error::new(libc::ENOTSUP)),
        }
        Ok(())
    }

    /// Lets the receive buffer grow, up to so many bytes, while the peer fills it: what is connected or accepted from now on. Until
    /// `SO_RCVBUF` is set, which says how long it is.
    pub fn let_receive_buffer_grow(&self, most: u32) {
        let mut state = self.lock();
        if state.link.is_none() {
            let sizes = &mut state.options.sizes;
            sizes.receive_buffer_most = buffer_size(most).max(sizes.receive_buffer);
        }
    }

    /// What an option is.
    pub fn option(&self, level: i32, name: i32) -> Result<Value> {
        let mut state = self.lock();
        let options = &state.options;
        let Sizes { receive_buffer, send_buffer, send_queue, receive_queue, inline, mappings, .. } =
            options.sizes;
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        Ok(Value::number(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse_address.into(),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => number(receive_buffer),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => number(send_buffer),
            (libc::SOL_SOCKET, libc::SO_LINGER) => return Ok(Value::pair(options.linger)),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive.into(),
            (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.out_of_band_inline.into(),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                self.update(&mut state, Look::Thorough);
                std::mem::take(&mut state.error)
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => 1,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => number(options.keep_idle_seconds),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => SEGMENT,
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => options.only_v6.into(),
            (SOL_RDMA, RDMA_SEND_QUEUE) => number(send_queue),
            (SOL_RDMA, RDMA_RECEIVE_QUEUE) => number(receive_queue),
            (SOL_RDMA, RDMA_INLINE) => number(inline),
            (SOL_RDMA, RDMA_MAPPINGS) => number(mappings),
            _ => return Err(Error::new(libc::ENOTSUP)),
        }))
    }
}

fn doubled(asked: i32) -> u32 {
    buffer_size(asked.max(0).cast_unsigned().saturating_mul(2))
}
