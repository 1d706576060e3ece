//! One of the two processes of `nonic demo dat`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{ADAPTER, Line, PARTS, Stage};
use crate::dat::DatLibrary;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::demo::peer::{Event, Role, fail, tell};

/// One of the uDAPL demo's processes (internal)
#[derive(Args, Debug)]
pub(crate) struct PeerArguments {
    role: Role,
    library: PathBuf,
}

/// The process. Its standard input is one end of the socketpair to the other one.
pub(crate) fn main(arguments: &PeerArguments) -> ExitCode {
    // Whoever kills the demo means this process too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut exchange = match Exchange::of_standard_input() {
        Ok(exchange) => exchange,
        Err(failure) => return fail(&failure),
    };
    let (library, line) = match join(arguments, &mut exchange) {
        Ok(joined) => joined,
        Err(failure) => return give_up(&mut exchange, &failure),
    };
    let mut stage = Stage { library, line, exchange };
    for (initiate, serve) in PARTS {
        let played = match arguments.role {
            Role::Initiator => initiate(&mut stage).map(|done| tell(&Event::Done(done))),
            Role::Target => serve(&mut stage),
        };
        if let Err(failure) = played {
            return give_up(&mut stage.exchange, &failure);
        }
    }
    ExitCode::SUCCESS
}

fn give_up(exchange: &mut Exchange, failure: &Failure) -> ExitCode {
    let _ = exchange.tell_failure(failure); // If the other process is gone already, there is no one to tell.
    fail(failure)
}

fn join(arguments: &PeerArguments, exchange: &mut Exchange) -> Outcome<(DatLibrary, Line)> {
    let library = DatLibrary::load(&arguments.library)?;
    let line = Line::open(&library, ADAPTER, arguments.role, exchange)?;
    if arguments.role == Role::Initiator {
        tell(&Event::Connected { adapter: ADAPTER.to_owned(), number: line.number() });
    }
    Ok((library, line))
}
