//! The end: both are told, what was posted comes back, and the port is free.

use std::rc::Rc;
use std::time::Instant;

use super::connection::{Connection, receive_visit, visit};
use super::{Stage, listen};
use crate::demo::failure::{Outcome, Spinner, ensure};
use crate::demo::measure::{Figure, median};
use crate::demo::step::Done;
use crate::rdmacm::{EventKind, Identifier};
use crate::verbs::{Buffer, Piece, Region, Rights, Session};

/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSHED: u32 = 5;

/// Receives that are posted on both sides when the end comes.
const RECEIVES: usize = 8;

/// Connections that are ended.
const CONNECTIONS: usize = 20;

/// Memory, and a queue pair with receives posted to it.
fn prepare(identifier: &Rc<Identifier>) -> Outcome<(Rc<Session>, Region, Connection)> {
    let session = identifier.session()?;
    let region = session.register(&Buffer::new(RECEIVES * 8).into(), Rights::Local)?;
    let mut connection = Connection::prepare(identifier, &session)?;
    for at in 0..RECEIVES {
        connection.endpoint.post_receive(Piece::new(&region, at * 8, 8))?;
    }
    Ok((session, region, connection))
}

/// Takes the receives, none of which found a message.
fn take_flushed(session: &Session) -> Outcome<()> {
    for at in 0..RECEIVES {
        let mut spinner = Spinner::new("a receive to be flushed");
        let completion = loop {
            match session.poll()? {
                Some(completion) => break completion,
                None => spinner.turn()?,
            }
        };
        ensure(completion.status == FLUSHED, || {
            let words = session.library.status_words(completion.status);
            format!("receive {at} of a connection that ended came back with \"{words}\"")
        })?;
    }
    let more = session.poll()?;
    ensure(more.is_none(), || format!("{RECEIVES} receives were posted, and more came back: {more:?}"))
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let address = stage.address();
    let mut times = Vec::with_capacity(CONNECTIONS);
    for turn in 0..CONNECTIONS {
        let identifier = stage.resolve(address)?;
        let (session, _region, connection) = prepare(&identifier)?;
        connection.connect(&[])?;
        let begun = Instant::now();
        connection.end()?;
        times.push(begun.elapsed());
        take_flushed(&session)?;
        if turn + 1 == CONNECTIONS {
            identifier.expect(EventKind::TIMEWAIT_EXIT, 0)?;
        }
    }
    stage.exchange.meet()?; // The target listens once more, on the same port.
    let session = stage.resolve(address)?.session()?;
    visit(stage, address, &session)?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "both sides were told that it is over, first DISCONNECTED, then TIMEWAIT_EXIT; {RECEIVES} receives posted on \
             each came back flushed; port {}, refused while the listener was there, was bound again at once after it",
            address.port()
        ),
        figures: vec![Figure::latency("disconnect, to its event", median(times))],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let (address, listener) = (stage.address(), stage.listener()?);
    for turn in 0..CONNECTIONS {
        let (_, identifier) = listener.request()?;
        let (session, _region, connection) = prepare(&identifier)?;
        connection.accept(&[])?;
        connection.end_with_peer()?;
        take_flushed(&session)?;
        if turn + 1 == CONNECTIONS {
            identifier.expect(EventKind::TIMEWAIT_EXIT, 0)?;
        }
    }
    let taken = listen(&stage.channel, address).err().and_then(|error| error.errno());
    ensure(matches!(taken, Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)), || {
        format!("port {} has a listener, and binding it once more gave errno {taken:?}", address.port())
    })?;
    drop(listener);
    stage.listeners.clear();
    let again = listen(&stage.channel, address)?;
    stage.exchange.meet()?;
    receive_visit(&again)?;
    stage.exchange.meet()
}
