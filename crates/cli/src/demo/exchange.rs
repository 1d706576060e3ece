//! What the two processes tell each other beside the device: addresses, keys and "I am done". One JSON text a line over
//! a socketpair, as programs do over TCP.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::failure::{Deadline, Failure, Outcome};

/// How long one side waits for a word of the other, whose machine may have much else to do.
const PATIENCE: Duration = Duration::from_secs(20);

/// One end of the socketpair.
pub(crate) struct Exchange {
    reader: BufReader<UnixStream>,
}

/// Either what was expected, or why the peer gives up.
#[derive(Deserialize, Serialize)]
enum Envelope<T> {
    Word(T),
    Failed(String),
}

impl Exchange {
    /// Over that socket.
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { reader: BufReader::new(socket) }
    }

    /// Over standard input, where a helper process of this command has it.
    pub(crate) fn of_standard_input() -> Outcome<Self> {
        Self::of_descriptor(std::io::stdin().as_fd())
    }

    /// Over standard output, where a helper process that speaks to two others has the second.
    pub(crate) fn of_standard_output() -> Outcome<Self> {
        Self::of_descriptor(std::io::stdout().as_fd())
    }

    fn of_descriptor(descriptor: BorrowedFd<'_>) -> Outcome<Self> {
        let socket = descriptor.try_clone_to_owned();
        let socket =
            socket.map_err(|error| Failure::new(format!("no socket to the other process: {error}")))?;
        Ok(Self::new(UnixStream::from(socket)))
    }

    /// Tells the peer something.
    pub(crate) fn tell<T: Serialize>(&mut self, word: &T) -> Outcome<()> {
        self.send(&Envelope::Word(word))
    }

    /// Tells the peer that this side gives up; the peer's next [`Exchange::hear`] says so.
    pub(crate) fn tell_failure(&mut self, failure: &Failure) -> Outcome<()> {
        self.send(&Envelope::<()>::Failed(failure.to_string()))
    }

    fn send<T: Serialize>(&mut self, envelope: &Envelope<T>) -> Outcome<()> {
        let mut line = serde_json::to_vec(envelope).map_err(|error| Failure::new(error.to_string()))?;
        line.push(b'\n');
        // A socketpair has room for many such lines, and each is answered, so this never waits for long.
        self.reader
            .get_mut()
            .write_all(&line)
            .map_err(|error| self.last_words().unwrap_or_else(|| gone(&error)))
    }

    /// Why a peer that is gone gave up, if it said so.
    fn last_words(&mut self) -> Option<Failure> {
        let mut line = String::new();
        while self.reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            if let Ok(Envelope::<IgnoredAny>::Failed(words)) = serde_json::from_str(&line) {
                return Some(gave_up(&words));
            }
            line.clear();
        }
        None
    }

    /// Waits for what the peer tells.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Outcome<T> {
        self.hear_within(PATIENCE)
    }

    /// Waits that long for what the peer tells.
    pub(crate) fn hear_within<T: DeserializeOwned>(&mut self, patience: Duration) -> Outcome<T> {
        let deadline = Deadline::after(patience);
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let left = deadline.remaining();
            self.reader.get_ref().set_read_timeout(left).map_err(|error| gone(&error))?;
            match self.reader.read_until(b'\n', &mut line) {
                _ if left.is_none() => deadline.check("a word from the other process")?,
                Ok(0) => return Err(Failure::new("the other process ended without a word")),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    deadline.check("a word from the other process")?;
                }
                Err(error) => return Err(gone(&error)),
            }
        }
        match serde_json::from_slice(&line) {
            Ok(Envelope::Word(word)) => Ok(word),
            Ok(Envelope::Failed(words)) => Err(gave_up(&words)),
            Err(error) => Err(Failure::new(format!("cannot understand the other process: {error}"))),
        }
    }

    /// Both tell, then both hear.
    pub(crate) fn swap<T: Serialize + DeserializeOwned>(&mut self, word: &T) -> Outcome<T> {
        self.tell(word)?;
        self.hear()
    }

    /// Both processes have come this far.
    pub(crate) fn meet(&mut self) -> Outcome<()> {
        self.swap(&()).map(|_: ()| ())
    }
}

fn gave_up(words: &str) -> Failure {
    Failure::new(format!("the other process gave up: {words}"))
}

fn gone(error: &std::io::Error) -> Failure {
    Failure::new(format!("the other process cannot be talked to: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Exchange, Exchange) {
        let (left, right) = UnixStream::pair().unwrap();
        (Exchange::new(left), Exchange::new(right))
    }

    #[test]
    fn words_arrive_in_order() {
        let (mut left, mut right) = pair();
        left.tell(&1_u32).unwrap();
        left.tell(&"two").unwrap();
        assert_eq!(right.hear::<u32>().unwrap(), 1);
        assert_eq!(right.hear::<String>().unwrap(), "two");
    }

    #[test]
    fn a_peer_that_gives_up_says_why() {
        let (mut left, mut right) = pair();
        left.tell_failure(&Failure::new("no memory")).unwrap();
        assert_eq!(right.hear::<u32>().unwrap_err().to_string(), "the other process gave up: no memory");
    }

    #[test]
    fn a_peer_that_gave_up_and_is_gone_has_said_why_to_one_who_tells_it_something() {
        let (mut left, mut right) = pair();
        left.tell(&1_u32).unwrap();
        left.tell_failure(&Failure::new("no memory")).unwrap();
        drop(left);
        assert_eq!(right.tell(&2_u32).unwrap_err().to_string(), "the other process gave up: no memory");
        let (left, mut right) = pair();
        drop(left);
        assert!(
            right.tell(&2_u32).unwrap_err().to_string().starts_with("the other process cannot be talked to")
        );
    }

    #[test]
    fn a_peer_that_is_gone_is_noticed_at_once() {
        let (left, mut right) = pair();
        drop(left);
        assert_eq!(right.hear::<u32>().unwrap_err().to_string(), "the other process ended without a word");
    }
}
