//! One of the two processes of `nonic demo dat`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{ADAPTER, Line, PARTS, Stage};
use crate::dat::DatLibrary;
use crate::demo::exchange::Exchange;
use crate::demo::failure::Outcome;
use crate::demo::peer::{Event, Role, begin, or_give_up, play, tell};

/// One of the uDAPL demo's processes (internal)
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
    let (library, line) = or_give_up(join(arguments, &mut exchange), &mut exchange)?;
    let mut stage = Stage { library, line, exchange };
    for (initiate, serve) in PARTS {
        or_give_up(play(arguments.role, &mut stage, initiate, serve), &mut stage.exchange)?;
    }
    Ok(())
}

fn join(arguments: &PeerArguments, exchange: &mut Exchange) -> Outcome<(DatLibrary, Line)> {
    let library = DatLibrary::load(&arguments.library)?;
    let line = Line::open(&library, ADAPTER, arguments.role, exchange)?;
    if arguments.role == Role::Initiator {
        tell(&Event::Connected { adapter: ADAPTER.to_owned(), number: line.number() });
    }
    Ok((library, line))
}
