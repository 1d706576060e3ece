//! Connections: each side reads what the other said with its request or reply, and knows the other's queue pair.

use std::time::Instant;

use super::connection::{Connection, receive_visit, visit};
use super::{REPLY_BYTES, REQUEST_BYTES, Stage, check_private_data};
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::Figure;
use crate::demo::step::Done;

/// What the sides say: less than fits, so that zeros follow.
const QUESTION: &[u8] = b"may I come in?";
const ANSWER: &[u8] = b"yes, the door is open";

/// Connections that are made and ended one after the other.
const VISITS: usize = 50;

pub(in crate::demo) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    for address in stage.addresses.clone() {
        let identifier = stage.resolve(address)?;
        let connection = Connection::prepare(&identifier, &identifier.session()?)?;
        let event = connection.connect(QUESTION)?;
        check_private_data(&event.private_data, ANSWER, REPLY_BYTES)?;
        let (seen, number) = (event.queue_pair, stage.exchange.swap(&connection.endpoint.number())?);
        ensure(seen == number, || {
            format!("the reply is from queue pair {seen}, and the target has {number}")
        })?;
        connection.end()?;
    }
    let session = stage.resolve(stage.address())?.session()?;
    let begun = Instant::now();
    for _ in 0..VISITS {
        visit(stage, stage.address(), &session)?;
    }
    let time = begun.elapsed();
    stage.exchange.meet()?;
    let addresses: Vec<_> = stage.addresses.iter().map(|address| address.ip().to_string()).collect();
    Ok(Done {
        what: format!(
            "to {}: {} bytes of private data read by the listener as {REQUEST_BYTES}, {} of its reply as \
             {REPLY_BYTES}, zeros behind, and each knew the queue pair of the other; both were told of the connection \
             and of its end",
            addresses.join(" and "),
            QUESTION.len(),
            ANSWER.len()
        ),
        figures: vec![Figure::frequency("made, from resolving to end", VISITS, time)],
    })
}

pub(in crate::demo) fn serve(stage: &mut Stage) -> Outcome<()> {
    for listener in stage.listeners.clone() {
        let (event, identifier) = listener.request()?;
        check_private_data(&event.private_data, QUESTION, REQUEST_BYTES)?;
        let connection = Connection::prepare(&identifier, &identifier.session()?)?;
        connection.accept(ANSWER)?;
        let (seen, number) = (event.queue_pair, stage.exchange.swap(&connection.endpoint.number())?);
        ensure(seen == number, || {
            format!("the request is from queue pair {seen}, and the initiator has {number}")
        })?;
        connection.end_with_peer()?;
    }
    for _ in 0..VISITS {
        receive_visit(&*stage.listener()?)?;
    }
    stage.exchange.meet()
}
