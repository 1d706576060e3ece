//! Starts a server and a client of someone else's and hears the client out.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::demo::failure::{Deadline, Failure, Outcome};
use crate::system::end_with_parent;

/// How long a server may take until it listens, and either until it ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port that nobody uses at the moment.
pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts the server, waits until it listens at the port, and returns what the client prints. `bind` is called with the side
/// before each start, 0 for the client, because a program starts where its parent is; and with nothing at the end.
pub(super) fn run(
    [client, server]: [Command; 2],
    port: u16,
    bind: impl Fn(Option<usize>) -> Outcome<()>,
) -> Outcome<String> {
    let started = start(server, Stdio::null(), || bind(Some(1)));
    bind(None)?;
    let mut server = started?;
    let deadline = Deadline::after(PATIENCE);
    while !is_listened_to(port) {
        if let Ok(Some(status)) = server.0.try_wait() {
            return Err(Failure::new(format!("the server ended before it listened: {status}")));
        }
        deadline.check("the server to listen")?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let started = start(client, Stdio::piped(), || bind(Some(0)));
    bind(None)?;
    let mut client = started?;
    // A client's output is shorter than a pipe holds, so it can be read when it has ended.
    let status = client.end_within(PATIENCE)?;
    let mut output = String::new();
    if let Some(pipe) = &mut client.0.stdout {
        let _ = io::Read::read_to_string(pipe, &mut output); // What is missing shows when it is read.
    }
    if !status.success() {
        return Err(Failure::new(format!("the client failed: {status}")));
    }
    let _ = server.end_within(Duration::from_secs(2)); // Ended by `drop` if it does not end by itself.
    Ok(output)
}

/// A program that does not outlive this object.
struct Guarded(Child);

impl Guarded {
    fn end_within(&mut self, patience: Duration) -> Outcome<std::process::ExitStatus> {
        let deadline = Deadline::after(patience);
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => deadline.check("a program to end")?,
                Err(error) => return Err(Failure::new(error.to_string())),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It has ended already, as a rule.
        let _ = self.0.wait();
    }
}

fn start(mut command: Command, output: Stdio, bind: impl Fn() -> Outcome<()>) -> Outcome<Guarded> {
    bind()?;
    end_with_parent(&mut command);
    let child = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).spawn();
    child.map(Guarded).map_err(|error| Failure::new(format!("cannot be started: {error}")))
}

/// Whether a socket listens at the port. Connecting would tell too, but the server would take that for its client.
fn is_listened_to(port: u16) -> bool {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|file| {
        std::fs::read_to_string(file).is_ok_and(|table| table.lines().any(|line| listens_at(line, port)))
    })
}

/// Whether a line of the kernel's table of TCP sockets is one that listens there.
fn listens_at(line: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace().skip(1);
    let (local, state) = (fields.next(), fields.nth(1));
    state == Some(LISTEN) && local.is_some_and(|local| local.ends_with(&format!(":{port:04X}")))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_listening_socket_is_seen_and_its_end_too() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listened_to(port));
        drop(listener);
        // A program that another test starts just now has a copy until it is executed.
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_listened_to(port) {
            assert!(Instant::now() < deadline, "port {port} is still listened to");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_and_not_a_hang() {
        let commands = [Command::new("true"), Command::new("false")];
        let failure = run(commands, free_port().unwrap(), |_| Ok(())).unwrap_err();
        assert!(failure.to_string().contains("ended before it listened"), "{failure}");
    }

    #[test]
    fn only_a_socket_in_the_listening_state_counts() {
        let line = "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1";
        assert!(listens_at(line, 8080));
        assert!(!listens_at(line, 8081));
        assert!(!listens_at(&line.replace(" 0A ", " 01 "), 8080));
    }
}
