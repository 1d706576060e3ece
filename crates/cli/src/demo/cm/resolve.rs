//! Addresses: both lead to the device of the target, by a route.

use std::net::SocketAddr;

use super::Stage;
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::{Figure, median_time};
use crate::demo::step::Done;

/// Resolves the address, and looks at what the identifier knows then; the name of the device.
fn look(stage: &Stage, address: SocketAddr) -> Outcome<String> {
    let identifier = stage.resolve(address)?;
    let (own, peer) = (identifier.local_address(), identifier.peer_address());
    ensure(peer == Some(address), || {
        format!("{address} was resolved, and the identifier leads to {peer:?}")
    })?;
    ensure(own.is_some_and(|own| own.ip() == address.ip() && own.port() != 0), || {
        format!("the way to {address} begins at {own:?}")
    })?;
    let paths = identifier.path_count();
    ensure(paths > 0, || format!("{paths} paths were found to {address}"))?;
    Ok(identifier.session()?.device_name())
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let device: String = stage.exchange.hear()?;
    for &address in &stage.addresses {
        let found = look(stage, address)?;
        ensure(found == device, || format!("{address} leads to {found}, and the target has {device}"))?;
    }
    let address = stage.address();
    let time = median_time(|_| stage.resolve(address).map(drop))?;
    stage.exchange.meet()?;
    let words: Vec<_> = stage.addresses.iter().map(|at| format!("{} port {}", at.ip(), at.port())).collect();
    Ok(Done {
        what: format!(
            "{} resolved, first the address, then the route, to the device that the listener shows, {device}",
            words.join(" and ")
        ),
        figures: vec![Figure::latency("address and route", time)],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let device = stage.listener()?.session()?.device_name();
    stage.exchange.tell(&device)?;
    stage.exchange.meet()
}
