//! A stream to another host as frames that come and go.

use std::sync::Arc;
use std::time::Instant;

use nonic_device::Context;
use nonic_rsocket::{Entry, Inbox, Look, SharedSlice, Stream};
use nonic_sys::{POLL_IN, POLL_OUT, PollEntry};

use super::Why;
use crate::wire::{Frame, HEADER, Header, Link, PAYLOAD_MOST};

/// Resource temporarily unavailable, the same number on every machine.
const EAGAIN: i32 = 11;

/// What an inbox calls the stream, and the link.
const STREAM: u64 = 0;
const LINK: u64 = 1;

/// The stream, and who waits for it.
pub(crate) struct Line {
    pub(crate) stream: Arc<Stream>,
    inbox: Arc<Inbox>,
    entry: Arc<Entry>,
    /// There once the stream is connected.
    context: Option<Arc<Context>>,
    buffer: Vec<u8>,
    /// Where in the buffer what came begins and ends.
    came: (usize, usize),
    /// The frame that is going, and how much of it has gone.
    going: Option<(Frame, usize)>,
}

impl Line {
    /// Over a stream that is being connected, or is; and the link by which this thread is told to look.
    pub(crate) fn new(stream: Arc<Stream>) -> nonic_rsocket::Result<(Self, Arc<Link>)> {
        stream.set_nonblocking(true);
        let inbox = Inbox::new()?;
        let entry = Entry::new(&inbox, STREAM);
        let link = Link::new(Entry::new(&inbox, LINK));
        let context = stream.begin_watch(&entry);
        let line = Self { stream, inbox, entry, context, buffer: Vec::new(), came: (0, 0), going: None };
        Ok((line, link))
    }

    /// The stream is connected now.
    pub(crate) fn is_connected(&mut self) {
        self.stream.end_watch(&self.entry);
        self.context = self.stream.begin_watch(&self.entry);
        self.buffer = vec![0; HEADER + PAYLOAD_MOST];
    }

    /// What was told is about to be looked at; what comes from now on is told anew.
    pub(crate) fn look(&self, link: &Link) {
        self.inbox.take(&mut Vec::new());
        self.entry.is_looked_at();
        link.is_looked_at();
        self.stream.ready(POLL_IN | POLL_OUT, Look::Armed);
    }

    /// Waits until something is told, one of `entries` is ready, or until then.
    pub(crate) fn wait(&self, entries: &mut Vec<PollEntry>, until: Option<Instant>) {
        // A signal is none of this thread's; whatever ended the wait, there is a look.
        let _ = self.inbox.wait(self.context.as_deref(), entries, until);
    }

    /// The next frame that came whole.
    pub(crate) fn take(&mut self) -> Result<Option<(Header, Vec<u8>)>, Why> {
        loop {
            let (begin, end) = self.came;
            if let Some(bytes) = self.buffer[begin..end].first_chunk() {
                let header = Header::parse(bytes).ok_or("what came is no frame")?;
                let stop = begin + HEADER + header.length as usize;
                if stop <= end {
                    let payload = self.buffer[begin + HEADER..stop].to_vec();
                    self.came = if stop == end { (0, 0) } else { (stop, end) };
                    return Ok(Some((header, payload)));
                }
            }
            if begin > 0 {
                self.buffer.copy_within(begin..end, 0);
                self.came = (0, end - begin);
            }
            let room = SharedSlice::of_private(&mut self.buffer[self.came.1..]);
            match self.stream.receive(room, 0) {
                Ok(0) => return Err("the stream to the other host has ended"),
                Ok(count) => self.came.1 += count,
                Err(error) if error.errno() == EAGAIN => return Ok(None),
                Err(_) => return Err("the stream to the other host has broken"),
            }
        }
    }

    /// Sends what is to go, as far as there is room; whether anything went. A stream that takes no more has ended, or broken: that shows
    /// when all has been taken that came before, and until then what would go is dropped.
    pub(crate) fn flush(&mut self, link: &Link) -> bool {
        let mut any = false;
        while let Some((Frame(mut bytes), done)) =
            self.going.take().or_else(|| link.next().map(|frame| (frame, 0)))
        {
            let rest = SharedSlice::of_private(&mut bytes[done..]);
            let left = rest.length();
            let sent = match self.stream.send(&[rest], 0) {
                Ok(sent) => sent,
                Err(error) if error.errno() == EAGAIN => 0,
                Err(_) => left,
            };
            any |= sent > 0;
            if sent < left {
                self.going = Some((Frame(bytes), done + sent));
                return any;
            }
        }
        any
    }

    /// Whether everything has gone.
    pub(crate) fn is_flushed(&self) -> bool {
        self.going.is_none()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stream.end_watch(&self.entry);
    }
}
