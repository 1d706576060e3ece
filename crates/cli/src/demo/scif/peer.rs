//! One of the two processes of `nonic demo scif`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{PARTS, Stage, node};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Outcome, ensure};
use crate::demo::peer::{Event, Role, begin, or_give_up, play, tell};
use crate::scif::{Endpoint, PortId, ScifLibrary};

/// One of the SCIF demo's processes (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    role: Role,
    library: PathBuf,
}

/// The process. Its standard input is one end of the socketpair to the other one.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    run(arguments).err().unwrap_or(ExitCode::SUCCESS)
}

fn run(arguments: &PeerArguments) -> Result<(), ExitCode> {
    let mut exchange = begin()?;
    let endpoint = or_give_up(join(arguments, &mut exchange), &mut exchange)?;
    let mut stage = Stage { endpoint, exchange };
    for (initiate, serve) in PARTS {
        or_give_up(play(arguments.role, &mut stage, initiate, serve), &mut stage.exchange)?;
    }
    Ok(())
}

/// The card listens on a port that the library chooses, the host connects to it.
fn join(arguments: &PeerArguments, exchange: &mut Exchange) -> Outcome<Endpoint> {
    let library = ScifLibrary::load(&arguments.library)?;
    let (nodes, own) = library.nodes()?;
    ensure(own == node(arguments.role) && nodes == [0, 1], || {
        format!("this process is node {own} of {nodes:?} and should be {} of 0 and 1", node(arguments.role))
    })?;
    let endpoint = Endpoint::open(&library)?;
    match arguments.role {
        Role::Target => {
            exchange.tell(&endpoint.listen()?)?;
            let (connected, peer) = endpoint.accept()?;
            let told: u16 = exchange.hear()?;
            ensure(peer == PortId { node: 0, port: told }, || {
                format!("accepted {peer:?}, but the host says it is port {told} of node 0")
            })?;
            Ok(connected)
        }
        Role::Initiator => {
            let target = PortId { node: node(Role::Target), port: exchange.hear()? };
            let port = endpoint.connect(target)?;
            exchange.tell(&port)?;
            let place = |node: u16, port: u16| format!("node {node} port {port}");
            tell(&Event::Joined { places: [place(own, port), place(target.node, target.port)] });
            Ok(endpoint)
        }
    }
}
