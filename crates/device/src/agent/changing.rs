//! Those who ask to change the device, or to use what was made on it: processes of this process's user, and of root. Everybody else is
//! hung up on.

use std::time::{Duration, Instant};

use nonic_sys::{AsFd, PacketSocket, Received};
use nonic_transport::{Asked, CHANGING_MESSAGE_MAX};

use super::{Agent, CHANGERS, CHANGING};
use crate::engine::{Changer, Engine, lock};

/// Who may be asking at once; who comes then is hung up on.
const ASKING_MAX: usize = 16;
/// How long nobody is taken in after somebody who may not ask.
const REST: Duration = Duration::from_millis(10);
/// How long a question may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Those who are connected and have not asked.
#[derive(Debug, Default)]
pub(super) struct Asking {
    waiting: Vec<(u64, PacketSocket, Changer, Instant)>,
    next: u64,
    /// The socket is not looked at before.
    rests_until: Option<Instant>,
}

impl Agent<'_> {
    /// Somebody connects.
    pub(super) fn changing_called(&mut self, now: Instant) {
        let Some(listener) = self.engine.changing() else { return };
        let mut strangers = 0;
        while strangers == 0
            && let Ok(socket) = listener.accept()
        {
            match socket.peer() {
                Ok(peer) if may_ask(self.engine, peer.uid) => {
                    self.take_question(socket, Changer::Process { pid: peer.pid, user: peer.uid }, now);
                }
                _ => strangers += 1,
            }
        }
        if strangers > 0 {
            self.asking.rests_until = Some(now + REST);
        } else {
            let _ = self.engine.agent.epoll.watch_once_more(listener.as_fd(), CHANGING);
        }
    }

    /// Goes on looking after a rest, and hangs up on whoever says nothing; returns when there is more of it.
    pub(super) fn look_after_changers(&mut self, now: Instant) -> Option<Duration> {
        if self.asking.rests_until.is_some_and(|until| until <= now) {
            self.asking.rests_until = None;
            self.changing_called(now);
        }
        self.asking.waiting.retain(|(_, _, _, since)| now.saturating_duration_since(*since) < PATIENCE);
        let patience = (!self.asking.waiting.is_empty()).then_some(PATIENCE);
        let rest = self.asking.rests_until.map(|until| until.saturating_duration_since(now));
        [rest, patience].into_iter().flatten().min()
    }

    fn take_question(&mut self, socket: PacketSocket, changer: Changer, now: Instant) {
        let token = CHANGERS + self.asking.next;
        if self.asking.waiting.len() >= ASKING_MAX
            || self.engine.agent.epoll.add(socket.as_fd(), token).is_err()
        {
            return;
        }
        self.asking.next = (self.asking.next + 1) % (1 << 16);
        self.asking.waiting.push((token, socket, changer, now));
    }

    /// Somebody who is connected asks, or hangs up.
    pub(super) fn changer_called(&mut self, token: u64) {
        let Some(place) = self.asking.waiting.iter().position(|(known, ..)| *known == token) else { return };
        let mut bytes = [0; CHANGING_MESSAGE_MAX];
        let length = match self.asking.waiting[place].1.receive_bytes(&mut bytes) {
            Received::Nothing => return,
            Received::Message(length, _) => length,
            Received::HungUp => 0,
        };
        let (_, socket, changer, _) = self.asking.waiting.swap_remove(place);
        if length > 0 {
            let answer = answer(self.engine, &String::from_utf8_lossy(&bytes[..length]), changer);
            let _ = socket.send(&answer.as_bytes()[..answer.len().min(CHANGING_MESSAGE_MAX)], &[]);
        }
    }
}

fn may_ask(engine: &Engine, user: u32) -> bool {
    engine.is_own_user(user) || user == 0
}

fn answer(engine: &Engine, question: &str, changer: Changer) -> String {
    match question.parse() {
        Ok(Asked::History) => format!("ok {}", engine.changes.history().join("\n")),
        Ok(Asked::Import(context, wanted)) => format!("ok {}", engine.grant(context, wanted)),
        Ok(Asked::Change(device, change)) => match engine.change(device.as_deref(), change, changer) {
            Ok(done) => format!("ok {done}"),
            Err(why) => format!("refused {why}"),
        },
        Err(error) => format!("refused {error}"),
    }
}

impl Engine {
    /// The socket on which changes are asked for, if there is one.
    fn changing(&self) -> Option<std::sync::Arc<PacketSocket>> {
        lock(&self.agent.changing).clone()
    }
}
