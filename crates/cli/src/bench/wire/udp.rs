//! What UDP does between the ends of the cable, by the calls that the device uses, and nothing else.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, DATAGRAM_RUN_MAX, DatagramBatch, DatagramRoute, Epoll, RunSent, WireSocket};

use super::super::device::{Device, now, spin_in_step};
use super::super::job::{Order, Sample, Unit};
use super::super::worker::{Side, wait_until};
use super::{DATAGRAM, PAYLOAD, TRANSFER, address};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};

/// A port of both ends. Nobody else is in these networks.
const PORT: u16 = 4700;

/// Bytes of a datagram of the ping-pong: what a send of 8 bytes takes behind the header of UDP.
const SMALL: usize = 12 + 8 + 4;
/// The same of an acknowledgement.
const ACKNOWLEDGEMENT: usize = 12 + 4 + 4;

fn failed(what: &str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::new(format!("{what} for UDP: {error}"))
}

fn at(end: Side) -> SocketAddr {
    SocketAddr::new(address(end), PORT)
}

fn other(side: Side) -> Side {
    if side == Side::Initiator { Side::Target } else { Side::Initiator }
}

/// Runs of datagrams in one direction, as fast as the kernel takes them (`UDP_SEGMENT`) and the other side gets them out (`UDP_GRO`):
/// transfers a second, of what the datagrams would carry. What the receiver had no room for does not count.
pub(super) fn rate(side: Side, order: &Order, peer: &mut Exchange) -> Outcome<Sample> {
    let socket = WireSocket::bind(at(side)).map_err(failed("no socket"))?;
    peer.meet()?;
    if side == Side::Target {
        peer.tell(&take(&socket, order.budget)?)?;
        return Ok(Sample::of(0.0, Unit::OperationsPerSecond));
    }
    send(&socket, order.budget)?;
    let bytes: f64 = peer.hear()?;
    Ok(Sample::of(bytes / DATAGRAM as f64 * PAYLOAD as f64 / TRANSFER as f64, Unit::OperationsPerSecond))
}

/// Sends for longer than the other side counts.
fn send(socket: &WireSocket, budget: Duration) -> Outcome<()> {
    let run = vec![0; DATAGRAM_RUN_MAX / DATAGRAM * DATAGRAM];
    let route = DatagramRoute { to: at(Side::Target), traffic_class: 0, hop_limit: 64 };
    let end = Instant::now() + 2 * budget;
    while Instant::now() < end {
        match socket.send(&route, &run, DATAGRAM) {
            RunSent::Sent | RunSent::NoRoom => {}
            RunSent::NoRuns => {
                return Err(Failure::new("the cable takes no runs of datagrams (UDP_SEGMENT)"));
            }
            RunSent::Refused(error) => return Err(failed("sending")(error)),
        }
    }
    Ok(())
}

/// Bytes a second that come in that time, from when half of it has passed since the first came. Who had no processor meanwhile tells of
/// all that came.
fn take(socket: &WireSocket, budget: Duration) -> Outcome<f64> {
    let mut batch = DatagramBatch::default();
    let mut bytes = 0;
    let mut look = |bytes: &mut usize| socket.receive(&mut batch, |_, part| *bytes += part.len());
    wait_until("the first datagram", || Ok(look(&mut bytes) > 0))?;
    let first = Instant::now();
    while first.elapsed() < budget / 2 {
        look(&mut bytes);
    }
    let (begin, before) = (Instant::now(), bytes);
    while begin.elapsed() < budget {
        look(&mut bytes);
    }
    let rate = |bytes: usize, since: Instant| bytes as f64 / since.elapsed().as_secs_f64();
    Ok(if bytes > before { rate(bytes - before, begin) } else { rate(bytes, first) })
}

/// Half a round trip of a datagram, both sides spinning.
pub(super) fn ping_pong(
    device: &mut Device,
    side: Side,
    order: &Order,
    peer: &mut Exchange,
) -> Outcome<Sample> {
    let socket = UdpSocket::bind(at(side)).map_err(failed("no socket"))?;
    socket.connect(at(other(side))).map_err(failed("no connection"))?;
    socket.set_nonblocking(true).map_err(failed("no socket that never waits"))?;
    let message = [0; SMALL];
    let ping = || match socket.send(&message) {
        Ok(_) => Ok(()),
        Err(error) => Err(failed("sending")(error)),
    };
    let pong = || {
        let mut place = [0; 2 * SMALL];
        wait_until("a datagram", || match socket.recv(&mut place) {
            Ok(length) => Ok(length == SMALL),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(failed("receiving")(error)),
        })
    };
    turns(device, side, order, peer, (ping, pong))
}

/// The same packets as the device's, by its calls, and nothing else: a message and the acknowledgement of the one before it, as a run
/// of two. Its sockets are connected to nobody: of one that is, the kernel numbers datagrams from a number on that it does not
/// tell, and the check of a packet is over that number, too.
pub(super) fn ping_pong_of_packets(
    device: &mut Device,
    side: Side,
    order: &Order,
    peer: &mut Exchange,
) -> Outcome<Sample> {
    let socket = WireSocket::bind(at(side)).map_err(failed("no socket"))?;
    // As the device does, to be woken when nobody spins.
    let epoll = Epoll::new().map_err(failed("nothing to wait on"))?;
    epoll.add(socket.as_fd(), 0).map_err(failed("nothing to wait on"))?;
    let route = DatagramRoute { to: at(other(side)), traffic_class: 0, hop_limit: 64 };
    let message = [0; SMALL + ACKNOWLEDGEMENT];
    let ping = || match socket.send(&route, &message, SMALL) {
        RunSent::Sent => Ok(()),
        unsent => Err(Failure::new(format!("a run of two datagrams is not sent by UDP: {unsent:?}"))),
    };
    let mut batch = DatagramBatch::default();
    let pong = || {
        let mut came = 0;
        wait_until("a run of two datagrams", || {
            socket.receive_one(&mut batch, |_, bytes| came += bytes.len());
            Ok(came == message.len())
        })
    };
    turns(device, side, order, peer, (ping, pong))
}

/// Measures turns of a `ping` and a `pong`.
fn turns(
    device: &mut Device,
    side: Side,
    order: &Order,
    peer: &mut Exchange,
    (mut ping, mut pong): (impl FnMut() -> Outcome<()>, impl FnMut() -> Outcome<()>),
) -> Outcome<Sample> {
    peer.meet()?;
    let turn = |_| match side {
        Side::Initiator => ping().and_then(|()| pong()),
        Side::Target => pong().and_then(|()| ping()),
    };
    let times = spin_in_step(device, side, order, peer, turn, now)?;
    peer.meet()?;
    Ok(Sample::of_times(times.into_iter().map(|time| time / 2.0).collect()))
}
