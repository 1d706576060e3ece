//! Refusals: by the listener with a word, by a port where nobody listens, and of calls that come too early.

use std::net::SocketAddr;
use std::time::Instant;

use super::connection::{Connection, receive_visit, visit};
use super::{LOOPBACKS, REJECTION_BYTES, REQUEST_BYTES, Stage, check_private_data, own_address};
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::{Figure, median};
use crate::demo::step::Done;
use crate::rdmacm::{EventKind, Identifier, RdmacmError};

/// Reasons of a rejection in InfiniBand's numbers: the program's own, and that nobody offers the service.
const BY_PROGRAM: i32 = 28;
const NO_SERVICE: i32 = 8;

/// What the sides say.
const QUESTION: &[u8] = b"may I?";
const NO: &[u8] = b"no, not today";

/// Requests that the listener rejects.
const REQUESTS: usize = 30;

/// Fails unless a call was refused as one with wrong arguments.
fn ensure_invalid(call: &str, answer: Result<(), RdmacmError>) -> Outcome<()> {
    let errno = answer.as_ref().err().and_then(RdmacmError::errno);
    ensure(errno == Some(libc::EINVAL), || {
        let words = answer.err().map_or("did not fail".to_owned(), |error| format!("ended with: {error}"));
        format!("{call} should answer EINVAL there, and {words}")
    })
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let address = stage.address();
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let identifier = stage.resolve(address)?;
        let connection = Connection::prepare(&identifier, &identifier.session()?)?;
        let begun = Instant::now();
        identifier.connect(QUESTION)?;
        let event = connection.identifier.expect(EventKind::REJECTED, BY_PROGRAM)?;
        times.push(begun.elapsed());
        check_private_data(&event.private_data, NO, REJECTION_BYTES)?;
    }

    // A port that is taken, so that nobody else comes to listen there.
    let silent = Identifier::new(&stage.channel)?;
    silent.bind(SocketAddr::new(LOOPBACKS[0], 0))?;
    let identifier = stage.resolve(own_address(&silent)?)?;
    let _connection = Connection::prepare(&identifier, &identifier.session()?)?;
    identifier.connect(QUESTION)?;
    identifier.expect(EventKind::REJECTED, NO_SERVICE)?;

    let early = Identifier::new(&stage.channel)?;
    ensure_invalid("rdma_resolve_route", early.resolve_route())?;
    ensure_invalid("rdma_connect", early.connect(QUESTION))?;
    ensure_invalid("rdma_disconnect", early.disconnect())?;
    ensure(!early.has_device() && early.peer_address().is_none(), || {
        "an identifier knows a device or an address after calls that failed".to_owned()
    })?;
    // The same identifier, in the right order: the first events that come are those of these calls.
    early.resolve_address(address)?;
    early.resolve_route()?;
    ensure_invalid("rdma_resolve_route", early.resolve_route())?;
    let session = early.session()?;
    let connection = Connection::prepare(&early, &session)?;
    connection.connect(QUESTION)?;
    connection.end()?;
    visit(stage, address, &session)?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "the listener's no is status {BY_PROGRAM} with its {} bytes of private data read as {REJECTION_BYTES}, a \
             port where nobody listens status {NO_SERVICE}; calls that came too early were EINVAL and changed nothing: \
             the same identifier connected afterwards",
            NO.len()
        ),
        figures: vec![Figure::latency("request, to its rejection", median(times))],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let listener = stage.listener()?;
    for _ in 0..REQUESTS {
        let (event, identifier) = listener.request()?;
        check_private_data(&event.private_data, QUESTION, REQUEST_BYTES)?;
        identifier.reject(NO)?;
    }
    ensure_invalid("rdma_resolve_route of a listener", listener.resolve_route())?;
    ensure_invalid("rdma_listen of a listener", listener.listen())?;
    let (_, identifier) = listener.request()?;
    let connection = Connection::prepare(&identifier, &identifier.session()?)?;
    connection.accept(&[])?;
    connection.end_with_peer()?;
    receive_visit(&listener)?;
    stage.exchange.meet()
}
