//! One of the two processes of `nonic demo wire`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Args;

use super::{end_of, loss};
use crate::cable::Cable;
use crate::demo::cm::{self, connect};
use crate::demo::failure::{Failure, Outcome};
use crate::demo::peer::{Event, Role, begin, first_device, or_give_up, play, tell};
use crate::demo::step::{Stage, Step};
use crate::rdmacm::{Channel, RdmacmLibrary};
use crate::verbs::Session;

/// One of the processes of the wire's demo (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    role: Role,
    verbs_library: PathBuf,
    library: PathBuf,
}

/// The steps that are those of verbs.
const VERBS: [Step; 4] = [Step::TwoSided, Step::OneSided, Step::Atomics, Step::Refusal];

/// The process. Its standard input is one end of the socketpair to the other one.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    run(arguments).err().unwrap_or(ExitCode::SUCCESS)
}

fn run(arguments: &PeerArguments) -> Result<(), ExitCode> {
    let role = arguments.role;
    let mut exchange = begin()?;
    let (session, channel) = or_give_up(open(arguments), &mut exchange)?;
    let mut managed = cm::Stage::settle(channel, role, exchange, &[Cable::address(end_of(Role::Target))])
        .or_else(|(failure, mut exchange)| or_give_up(Err(failure), &mut exchange))?;
    let connected = play(role, &mut managed, connect::initiate, connect::serve);
    or_give_up(connected, &mut managed.exchange)?;
    let mut stage = Stage { session, exchange: managed.exchange };
    for step in VERBS {
        let played = play(role, &mut stage, |stage| step.initiate(stage), |stage| step.serve(stage));
        or_give_up(played, &mut stage.exchange)?;
    }
    or_give_up(play(role, &mut stage, loss::initiate, loss::serve), &mut stage.exchange)
}

fn open(arguments: &PeerArguments) -> Outcome<(Rc<Session>, Rc<Channel>)> {
    let library = RdmacmLibrary::load(&arguments.verbs_library, &arguments.library)?;
    let device = first_device(&library.verbs)?;
    let session = Session::open(&library.verbs, 0)?;
    let [from, to] = [end_of(arguments.role), 1 - end_of(arguments.role)].map(Cable::address);
    if !session.speak_from(from)? {
        return Err(Failure::new(format!("the device's port does not have the address {from} of this end")));
    }
    tell(&Event::Wired { device, from, to });
    Ok((session, Channel::open(&library)?))
}
