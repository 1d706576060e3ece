//! One of the two processes of `nonic demo cm`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Args;

use super::{LOOPBACKS, PARTS, Stage};
use crate::demo::failure::Outcome;
use crate::demo::peer::{Event, Role, begin, first_device, or_give_up, play, tell};
use crate::rdmacm::{Channel, RdmacmLibrary};

/// One of the connection manager demo's processes (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    role: Role,
    verbs_library: PathBuf,
    library: PathBuf,
}

/// The process. Its standard input is one end of the socketpair to the other one.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    run(arguments).err().unwrap_or(ExitCode::SUCCESS)
}

fn run(arguments: &PeerArguments) -> Result<(), ExitCode> {
    let mut exchange = begin()?;
    let channel = or_give_up(open(arguments), &mut exchange)?;
    let mut stage = Stage::settle(channel, arguments.role, exchange, &LOOPBACKS)
        .or_else(|(failure, mut exchange)| or_give_up(Err(failure), &mut exchange))?;
    if arguments.role == Role::Initiator {
        or_give_up(introduce(&stage), &mut stage.exchange)?;
    }
    for (initiate, serve) in PARTS {
        or_give_up(play(arguments.role, &mut stage, initiate, serve), &mut stage.exchange)?;
    }
    Ok(())
}

fn open(arguments: &PeerArguments) -> Outcome<Rc<Channel>> {
    let library = RdmacmLibrary::load(&arguments.verbs_library, &arguments.library)?;
    first_device(&library.verbs)?;
    Ok(Channel::open(&library)?)
}

/// Tells the command what the initiator found at the target's address.
fn introduce(stage: &Stage) -> Outcome<()> {
    let address = stage.address();
    let session = stage.resolve(address)?.session()?;
    let link_layer = session.port()?.link_layer().to_owned();
    tell(&Event::Resolved { device: session.device_name(), link_layer, address });
    Ok(())
}
