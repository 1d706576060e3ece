//! Streams: messages that come one after the other while the program sends nothing.
//!
//! A reader of a stream that is faster than its writer looks at the very line which the writer is about to fill, and takes
//! it away from it for every message. So a reader that has found a stream's end pauses for a few polls: the writer gets
//! ahead, and the lines come full. For the same reason one acknowledgement answers many messages. A program that answers
//! what it gets, or that waits for a single message, sees neither.

/// Messages in a row that make a stream.
const STREAM: u32 = 16;
/// Polls that a reader at the end of a stream lets pass before it looks again: some tenths of a microsecond.
const PAUSE: u32 = 12;
/// Messages of a stream after which they are acknowledged at the latest.
const ANSWER_EVERY: u32 = 32;

/// Belongs to the driver's lock.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Messages since the program last sent something.
    length: u32,
    /// Messages since what is owed was last sent.
    unanswered: u32,
    /// Nothing has come since the last pause.
    paused: bool,
}

impl Stream {
    /// Whether a look at the rings begins with sending what is owed. `sent`: the program has sent something since the last.
    #[inline]
    pub(super) fn must_answer(&mut self, sent: bool) -> bool {
        if sent {
            self.length = 0;
        }
        let must = self.length < STREAM || self.unanswered >= ANSWER_EVERY;
        if must {
            self.unanswered = 0;
        }
        must
    }

    /// A look found messages.
    #[inline]
    pub(super) fn note(&mut self, messages: u32) {
        self.length = self.length.saturating_add(messages);
        self.unanswered += messages;
        self.paused = false;
    }

    /// A look found nothing; returns how many polls are to pass before the next. The second time in a row the stream is over.
    #[inline]
    pub(super) fn pause(&mut self) -> u32 {
        if self.length < STREAM {
            return 0;
        }
        if self.paused {
            *self = Self::default();
            return 0;
        }
        self.paused = true;
        PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_messages_are_answered_at_the_next_look_and_never_waited_for() {
        let mut stream = Stream::default();
        for _ in 0..100 {
            assert!(stream.must_answer(true));
            stream.note(1);
            assert_eq!(stream.pause(), 0);
        }
    }

    #[test]
    fn a_stream_is_answered_now_and_then_and_at_its_end() {
        let mut stream = Stream::default();
        stream.note(STREAM);
        let mut unanswered = STREAM;
        for _ in 0..100 {
            unanswered = if stream.must_answer(false) { 0 } else { unanswered };
            assert!(unanswered < ANSWER_EVERY);
            stream.note(1);
            unanswered += 1;
        }
        assert_eq!(stream.pause(), PAUSE);
        stream.note(1);
        assert_eq!(stream.pause(), PAUSE, "it went on");
        assert_eq!(stream.pause(), 0, "it is over");
        assert!(stream.must_answer(false));
    }
}
