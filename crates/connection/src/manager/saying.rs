//! What the other process says on a channel, and what that makes of the connection it is about.

use super::{Far, Manager, Stage};
use crate::sinks::End;
use crate::wire::{Message, Refusal};

impl Manager {
    /// What connection `number` is about, if it leads over this channel.
    fn stage_on(&mut self, token: u64, number: u64) -> Option<&mut Stage> {
        let entry = self.connections.get_mut(&number)?;
        (entry.stage.channel() == Some(token)).then_some(&mut entry.stage)
    }

    /// False if the message makes no sense on a channel. One about a connection that is not, or not any more, does.
    pub(super) fn take_message(&mut self, token: u64, message: Message) -> bool {
        match message {
            Message::Request(_) | Message::Moved => return false,
            Message::Taken { to, own } => self.take_taken(to, Far { channel: token, number: own }),
            Message::Reply { to, facts, data } => {
                if let Some(Stage::Taken(far)) = self.stage_on(token, to) {
                    let far = *far;
                    self.take_reply(to, far, &facts, &data);
                }
            }
            Message::Reject { to, data } => {
                if let Some(Stage::Taken(_) | Stage::Replied(_)) = self.stage_on(token, to) {
                    self.end(to, End::Rejected(&data));
                }
            }
            Message::Refused { to, reason } => {
                if matches!(self.stage_on(token, to), Some(Stage::Taken(_) | Stage::AskedOver { .. })) {
                    self.end(to, End::Refused(reason));
                }
            }
            Message::Elsewhere { to } => {
                if let Some(Stage::AskedOver { .. }) = self.stage_on(token, to) {
                    self.ask_elsewhere(token, to);
                }
            }
            Message::Ask { service, inquiry } => return self.hear_ask(token, service, inquiry),
            Message::Withdraw { number } => self.drop_ask(token, number),
            Message::Confirm { to } => {
                if let Some(stage) = self.stage_on(token, to)
                    && let Stage::Replied(far) = *stage
                {
                    *stage = Stage::Open(far);
                    let sink = self.connections.get(&to).and_then(|entry| entry.sink.clone());
                    if let Some(sink) = sink {
                        sink.established();
                    }
                }
            }
            Message::Word { to, data } => {
                if let Some(Stage::Answered(_) | Stage::Replied(_) | Stage::Open(_)) =
                    self.stage_on(token, to)
                {
                    let sink = self.connections.get(&to).and_then(|entry| entry.sink.clone());
                    if let Some(sink) = sink {
                        sink.told(&data);
                    }
                }
            }
            Message::Disconnect { to } => {
                if self.stage_on(token, to).is_some() {
                    self.end(to, End::Disconnected);
                }
            }
            Message::Goodbye => self.take_goodbye(token),
            Message::Break { to } => {
                if self.stage_on(token, to).is_some() {
                    self.end(to, End::Lost);
                }
            }
        }
        true
    }

    /// The layer above says something to the other side, if they are connected.
    pub(super) fn say(&mut self, number: u64, data: Box<[u8]>) {
        if let Some(Stage::Replied(far) | Stage::Open(far)) =
            self.connections.get(&number).map(|entry| &entry.stage)
        {
            let far = *far;
            self.send(far.channel, &Message::Word { to: far.number, data }, None);
        }
    }

    /// The other process ends in order.
    fn take_goodbye(&mut self, token: u64) {
        let Some(channel) = self.channel(token) else { return };
        channel.asks.clear();
        // What was asked over it is not lost: it is taken still, or asked by the name when the channel is closed.
        for number in std::mem::take(&mut channel.users) {
            let asking = self.connections.get(&number).map(|entry| matches!(entry.stage, Stage::Taken(_)));
            let refused = End::Refused(Refusal::NobodyListens);
            self.end(number, if asking == Some(true) { refused } else { End::Disconnected });
        }
    }
}
