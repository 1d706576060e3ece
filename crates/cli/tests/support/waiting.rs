//! Processes that have talked to each other through the library and now wait to be looked at.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long two processes may take to know all about each other.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A process that has talked to its peer through the library and now waits. Ends with this object.
pub(crate) struct Waiting {
    child: Child,
    socket: BufReader<UnixStream>,
}

impl Waiting {
    pub(crate) fn start(side: &str, command: &mut Command) -> Self {
        super::library();
        let library = super::program().with_file_name("nonic-lib/libibverbs.so.1");
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let command = command.args(["doctor-peer", "reach", side, "brisk"]).arg(library);
        let child = super::spawn(command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()));
        Self { child, socket: BufReader::new(ours) }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).expect("the process says something");
        line
    }

    fn pass_on(&mut self, to: &mut Self) {
        let line = self.hear();
        to.socket.get_mut().write_all(line.as_bytes()).unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two processes that are connected twice; the first has written to ordinary and device memory of the second.
pub(crate) fn pair(initiator: &mut Command, target: &mut Command) -> (Waiting, Waiting) {
    let (mut initiator, mut target) =
        (Waiting::start("initiator", initiator), Waiting::start("target", target));
    for _memory in 0..2 {
        for _word in 0..2 {
            initiator.pass_on(&mut target);
            target.pass_on(&mut initiator);
        }
        target.pass_on(&mut initiator);
    }
    initiator.hear();
    (initiator, target)
}
