//! Options of datagram sockets.

use nonic_sys::{AsFd, any_option, set_any_option};

use super::Datagram;
use crate::options::{RDMA_INLINE, RDMA_RECEIVE_QUEUE, RDMA_SEND_QUEUE, SOL_RDMA, Value};
use crate::settings::{QUEUE_MAX, buffer_size, queue_size};
use crate::{Error, Result};

impl Datagram {
    /// Sets an option. Those of the kernel are the UDP socket's first.
    pub(crate) fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        if level != SOL_RDMA {
            set_any_option(self.udp.as_fd(), level, name, value)?;
        }
        let mut state = self.lock();
        let is_open = state.port.is_some();
        let sizes = &mut state.sizes;
        let number = || Value::number_of(value).map(|number| number.max(0).cast_unsigned());
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) if !is_open => {
                sizes.receive_buffer = buffer_size(number()?.saturating_mul(2));
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) if !is_open => {
                sizes.send_buffer = buffer_size(number()?.saturating_mul(2));
            }
            (SOL_RDMA, _) if is_open => return Err(Error::new(libc::EINVAL)),
            (SOL_RDMA, RDMA_SEND_QUEUE) => sizes.send_queue = queue_size(number()?),
            (SOL_RDMA, RDMA_RECEIVE_QUEUE) => sizes.receive_queue = queue_size(number()?),
            (SOL_RDMA, RDMA_INLINE) => sizes.inline = number()?.min(QUEUE_MAX),
            (SOL_RDMA, _) => return Err(Error::new(libc::ENOTSUP)),
            _ => {}
        }
        Ok(())
    }

    /// What an option is.
    pub(crate) fn option(&self, level: i32, name: i32) -> Result<Value> {
        let sizes = self.lock().sizes;
        let size = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => sizes.receive_buffer,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.send_buffer,
            (SOL_RDMA, RDMA_SEND_QUEUE) => sizes.send_queue,
            (SOL_RDMA, RDMA_RECEIVE_QUEUE) => sizes.receive_queue,
            (SOL_RDMA, RDMA_INLINE) => sizes.inline,
            (SOL_RDMA, _) => return Err(Error::new(libc::ENOTSUP)),
            _ => {
                let mut bytes = [0; 8];
                let length = any_option(self.udp.as_fd(), level, name, &mut bytes)?;
                return Ok(Value::of_bytes(bytes, length));
            }
        };
        Ok(Value::number(size.cast_signed()))
    }
}
