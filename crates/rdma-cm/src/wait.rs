//! A wait for the next event of a channel.

use std::io;
use std::sync::Arc;

use nonic_device::{EventWait, Step};

use crate::channel::{deliver, shown};
use crate::{Event, EventChannel};

/// A wait for the oldest event of a channel ([`crate::EventChannel::begin_wait`]).
#[derive(Debug)]
pub struct EventChannelWait {
    channel: Arc<EventChannel>,
    has_begun: bool,
}

impl EventChannelWait {
    pub(crate) fn new(channel: &Arc<EventChannel>) -> Self {
        Self { channel: Arc::clone(channel), has_begun: false }
    }
}

impl EventWait for EventChannelWait {
    type Event = Event;

    fn go_on(&mut self, slept: io::Result<()>) -> io::Result<Step<Event>> {
        slept?;
        if std::mem::replace(&mut self.has_begun, true)
            && let Some((waiting, Some(delivered))) = self.channel.queue.after_read(deliver)
        {
            return Ok(Step::Found(shown(waiting, delivered)));
        }
        Ok(Step::Sleep(self.channel.queue.read()))
    }

    fn abandon(self, has_read: bool) {
        if has_read {
            self.channel.queue.undo_read();
        }
    }
}
