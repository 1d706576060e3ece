//! What two processes at the ends of a cable measure: the device by RoCEv2, and what the kernel's own UDP and TCP do there.

mod goals;
mod stream;
mod udp;

use std::net::IpAddr;
use std::path::Path;

pub(super) use goals::goals;

use super::device::Device;
use super::job::{Job, Order, Sample, Unit, Verb, WireJob};
use super::worker::Side;
use crate::cable::Cable;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::demo::lose;

/// What is lost where some is.
const LOSS: &str = "1%";

/// Bytes of the transfers that are measured as bandwidth.
const TRANSFER: usize = 1 << 20;

/// Bytes that a large packet carries, and those with its headers and check behind that of UDP: base header and check of RoCEv2 (IBTA
/// volume 1, A17).
const PAYLOAD: usize = 4096;
const DATAGRAM: usize = 12 + PAYLOAD + 4;

/// How much longer than other measurements one of processor time goes on, so that setting up is little of it.
const LONGER: u32 = 4;

/// The open device at one end.
pub(super) struct Wire {
    device: Device,
    end: Side,
}

/// The address at an end.
pub(super) fn address(end: Side) -> IpAddr {
    Cable::address(usize::from(end == Side::Target))
}

impl Wire {
    /// Opens the device, which speaks from the address of its end.
    pub(super) fn open(library: &Path, end: Side) -> Outcome<Self> {
        let device = Device::open(library)?;
        let address = address(end);
        if !device.session().speak_from(address)? {
            return Err(Failure::new(format!(
                "the device's port does not have the address {address} of its end"
            )));
        }
        Ok(Self { device, end })
    }

    /// Measures; the target's answer means nothing.
    pub(super) fn perform(&mut self, order: &Order, peer: &mut Exchange) -> Outcome<Option<Sample>> {
        let side = self.end;
        let Job::Wire(job) = order.job else { return self.device.perform(side, order, peer) };
        let write = Order { job: Job::Rate { verb: Verb::Write, size: TRANSFER }, ..*order };
        match job {
            WireJob::Datagrams => udp::rate(side, order, peer).map(Some),
            WireJob::PingPong => udp::ping_pong(&mut self.device, side, order, peer).map(Some),
            WireJob::Packets => udp::ping_pong_of_packets(&mut self.device, side, order, peer).map(Some),
            WireJob::Lossy => {
                let lost = |share| if side == Side::Initiator { lose(share) } else { Ok(()) };
                lost(LOSS)?;
                let sample = self.device.perform(side, &write, peer);
                lost("0")?;
                sample
            }
            WireJob::WriteCost => {
                let longer = Order { budget: LONGER * order.budget, ..write };
                cost(side, peer, |peer| {
                    let sample = self.device.perform(side, &longer, peer)?;
                    // What was measured goes on for a quarter of its time before it counts.
                    let rate = sample.map_or(0.0, |sample| sample.value);
                    Ok(rate * TRANSFER as f64 * longer.budget.as_secs_f64() * 1.25)
                })
            }
            WireJob::StreamCost => {
                let longer = Order { budget: LONGER * order.budget, ..*order };
                cost(side, peer, |peer| stream::transfer(side, &longer, peer))
            }
        }
    }
}

/// Nanoseconds of processor time that both processes spend on a billion bytes that `transfer` moves; it tells how many it has moved.
fn cost(
    side: Side,
    peer: &mut Exchange,
    transfer: impl FnOnce(&mut Exchange) -> Outcome<f64>,
) -> Outcome<Option<Sample>> {
    let spent = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let before = spent();
    let bytes = transfer(peer)?;
    let own = spent() - before;
    let others: f64 = peer.swap(&own)?;
    let moved = if side == Side::Initiator { bytes } else { 1e9 };
    Ok(Some(Sample::of((own + others) * 1e9 / moved, Unit::Nanoseconds)))
}
