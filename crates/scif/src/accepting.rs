//! A listener's side of connecting.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use nonic_sys::{
    AsFd, AsRawFd, EventFd, EventKind, OwnedFd, POLL_IN, PollEntry, RawFd, accept_stream, connect_stream,
    is_listening, is_unix_stream, open_stream, own_name, peer_name, poll, poll_now, replace_descriptor,
    send_byte, socket_cookie, take_bytes,
};

use crate::connecting::system;
use crate::connection::Connection;
use crate::meeting::Meetings;
use crate::node::fabric;
use crate::registry::{self, EndpointRecord};
use crate::segment::{Decision, Segment};
use crate::side::Side;
use crate::stream_socket::StreamSocket;
use crate::{PortId, ScifError};

/// The next request of a listener, as the connected descriptor and who asked.
pub(crate) fn accept(number: RawFd, wait: bool) -> Result<(OwnedFd, PortId), ScifError> {
    let record = registry::find(number)?;
    if !is_listening(number) {
        // Another thread may have closed it since it was looked up.
        still_is(number, &record)?;
        return Err(ScifError::Invalid("the endpoint does not listen"));
    }
    let cookie = record.identity.cookie;
    let mut meetings =
        registry::lock().entry(cookie).map(|entry| std::mem::take(&mut entry.meetings)).unwrap_or_default();
    let accepted = accept_one(number, &record, &mut meetings, wait);
    if let Some(entry) = registry::lock().entry(cookie) {
        if entry.shows_meetings && take_what_waits(number, &mut meetings) {
            entry.shows_meetings = false;
        }
        entry.meetings.append(meetings);
        entry.meetings.forget_gone();
        // The kernel does not show them any more: whoever waits for the listener is told by another that comes and goes.
        if !entry.meetings.is_empty()
            && !entry.shows_meetings
            && let Some(name) = own_name(number).ok().flatten()
        {
            let _ = connect_stream(&name);
            entry.shows_meetings = true;
        }
    }
    accepted
}

/// Takes what waits at a listener, so that it shows nothing that is not there: true if nothing waits any more.
fn take_what_waits(number: RawFd, meetings: &mut Meetings) -> bool {
    while meetings.have_room() {
        if poll_now(number, POLL_IN) & POLL_IN == 0 {
            return true;
        }
        match accept_stream(number) {
            Ok(way) => meetings.add(way),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
    false
}

fn accept_one(
    number: RawFd,
    record: &EndpointRecord,
    meetings: &mut Meetings,
    wait: bool,
) -> Result<(OwnedFd, PortId), ScifError> {
    let mut gone = false;
    loop {
        if meetings.want_more() && poll_now(number, POLL_IN) & POLL_IN != 0 {
            // A request brings two descriptors besides; those the process has no number for would be lost with it.
            let room = [open_stream(), open_stream()];
            if let Some(error) = room.iter().find_map(|reserved| reserved.as_ref().err()) {
                return Err(system(error));
            }
            let way = accept_stream(number);
            drop(room);
            match way {
                Ok(way) => meetings.add(way),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(system(&error)),
            }
            gone = true;
        }
        if let Some((meeting, enclosed)) = meetings.advance() {
            match take_request(meeting.into_way(), *enclosed) {
                Ok(accepted) => return Ok(accepted),
                Err(why) => tracing::debug!(why, "a request is not taken"),
            }
            continue;
        }
        let more = poll_now(number, POLL_IN) & POLL_IN != 0;
        if meetings.is_empty() && !wait && !more {
            let why = if gone { "whoever asked has given up" } else { "nobody waits to be accepted" };
            return Err(ScifError::TryAgain(why));
        }
        if !(more && meetings.want_more()) {
            wait_for_request(number, record, meetings)?;
        }
    }
}

fn wait_for_request(number: RawFd, record: &EndpointRecord, meetings: &Meetings) -> Result<(), ScifError> {
    let bell = Arc::new(EventFd::new(EventKind::All, true).map_err(|error| system(&error))?);
    let cookie = record.identity.cookie;
    if let Some(entry) = registry::lock().entry(cookie) {
        entry.waiters.push((number, Arc::clone(&bell)));
    }
    // A close that came before knew nothing of the bell, which may even have the number by now; a later one rings it.
    let here = still_is(number, record);
    let others = meetings.want_more().then_some(number);
    let numbers = meetings.numbers().chain([bell.as_fd().as_raw_fd()]).chain(others);
    let mut entries: Vec<_> =
        numbers.map(|number| PollEntry { number, events: POLL_IN, revents: 0 }).collect();
    let timeout = meetings.until().map(|until| until.saturating_duration_since(Instant::now()));
    let waited = here.and_then(|()| poll(&mut entries, timeout).map_err(|error| system(&error)));
    if let Some(entry) = registry::lock().entry(cookie) {
        entry.waiters.retain(|(_, waiter)| !Arc::ptr_eq(waiter, &bell));
    }
    waited?;
    still_is(number, record)
}

/// Refuses a number that another thread has closed since it was looked up: it is nobody's now, or another's.
fn still_is(number: RawFd, record: &EndpointRecord) -> Result<(), ScifError> {
    let same = socket_cookie(number).is_ok_and(|now| now == record.identity.cookie);
    if same { Ok(()) } else { Err(ScifError::Interrupted) }
}

/// Takes a request of somebody who may make it, if it still stands; or says why not.
fn take_request(way: OwnedFd, [other_end, file]: [OwnedFd; 2]) -> Result<(OwnedFd, PortId), &'static str> {
    let number = other_end.as_raw_fd();
    if !is_unix_stream(number) {
        return Err("what is to become the endpoint is no stream");
    }
    if StreamSocket(number).is_hung_up() {
        return Err("the endpoint that asked has been closed");
    }
    let name = peer_name(number).ok().flatten();
    let peer = name.and_then(|name| fabric().parse(&name)).ok_or("the endpoint that asked has no port")?;
    let cookie = socket_cookie(number).map_err(|_| "the kernel does not tell the socket's cookie")?;
    let segment = Segment::from_peer(file).map_err(|_| "what it would share is not what it should be")?;
    let record = registry::lock().insert(cookie, number);
    let identity = Arc::clone(&record.identity);
    let _ = record.connection.set(Connection::new(segment.clone(), Side::Acceptor, identity));
    if !segment.decide(Decision::Accepted) {
        registry::lock().remove(cookie);
        return Err("whoever asked does not want it any more");
    }
    // The connector's endpoint becomes writable.
    let _ = take_bytes(number, 64);
    let _ = send_byte(way.as_raw_fd());
    // The lowest number that was free is that of the way, which has done its work.
    let descriptor = replace_descriptor(way, other_end).map_err(|_| "its number cannot be changed")?;
    record.identity.note(descriptor.as_raw_fd());
    Ok((descriptor, peer))
}
