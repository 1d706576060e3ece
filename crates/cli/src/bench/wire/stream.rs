//! A stream of TCP from one end of the cable to the other, as iperf3 has it: large writes, and reads that sleep until something is there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use super::super::job::Order;
use super::super::worker::Side;
use super::{TRANSFER, address};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};

/// Bytes of a write and a read: iperf3's.
const BLOCK: usize = 128 << 10;

/// Moves bytes for as long as the order says; how many.
pub(super) fn transfer(side: Side, order: &Order, peer: &mut Exchange) -> Outcome<f64> {
    let failed = |error: std::io::Error| Failure::new(format!("a stream of TCP: {error}"));
    let mut block = vec![0; BLOCK];
    if side == Side::Target {
        let listener = TcpListener::bind(SocketAddr::new(address(side), 0)).map_err(failed)?;
        peer.tell(&listener.local_addr().map_err(failed)?)?;
        let (mut stream, _) = listener.accept().map_err(failed)?;
        while stream.read(&mut block).map_err(failed)? > 0 {}
        peer.tell(&())?;
        return Ok(TRANSFER as f64);
    }
    let to: SocketAddr = peer.hear()?;
    let mut stream = TcpStream::connect(to).map_err(failed)?;
    let end = Instant::now() + order.budget;
    let mut bytes = 0;
    while Instant::now() < end {
        stream.write_all(&block).map_err(failed)?;
        bytes += block.len();
    }
    drop(stream);
    peer.hear::<()>()?;
    Ok(bytes as f64)
}
