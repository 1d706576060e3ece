//! Two processes of one program: a server, and a client that finds it by TCP.

use crate::environment::Place;
use crate::output::complaints;
use crate::port::TcpPort;
use crate::program::Finished;
use crate::suite::{Verdict, failed};
use crate::toolbox::program;

/// What both sides did.
pub struct Pair {
    /// The side that was started first and waited.
    pub server: Finished,
    /// The side that connected.
    pub client: Finished,
}

impl Pair {
    /// Runs `name` with these arguments on both sides. The server gets a port to listen on with `-p`, the client
    /// also the server's address as the last word.
    pub fn run(place: &Place, name: &str, arguments: &[String]) -> Verdict<Self> {
        Self::run_between(place, place, name, arguments)
    }

    /// The same with each side in a place of its own.
    pub fn run_between(here: &Place, there: &Place, name: &str, arguments: &[String]) -> Verdict<Self> {
        Self::run_at("127.0.0.1", here, there, name, arguments)
    }

    /// The same where the server's address, as seen from `there`, is another.
    pub fn run_at(
        address: &str,
        here: &Place,
        there: &Place,
        name: &str,
        arguments: &[String],
    ) -> Verdict<Self> {
        let port = TcpPort::claim()?;
        let mut words = vec![program(name)?.display().to_string(), "-p".into(), port.number().to_string()];
        words.extend(arguments.iter().cloned());
        let mut server = here.nonic_run(words.clone())?.start()?;
        server.listens_on(port.number())?;
        words.push(address.into());
        let client = match there.nonic_run(words)?.run() {
            Ok(client) => client,
            Err(why) => {
                return failed(format!("the client: {why}\nthe server:\n{}", server.report("at that time")));
            }
        };
        // A client that failed leaves a server that waits for it for ever.
        let server = if client.succeeded() {
            match server.finish() {
                Ok(server) => server,
                Err(why) => return failed(format!("the server: {why}\nthe client:\n{}", client.report())),
            }
        } else {
            server.kill()
        };
        Ok(Self { server, client })
    }

    /// Fails unless both exited with 0 and neither complained.
    pub fn is_clean(&self) -> Verdict {
        for (side, finished) in [("client", &self.client), ("server", &self.server)] {
            if !finished.succeeded() {
                return self.wrong(format!("the {side} ended with {}", finished.status()));
            }
            if let Some(line) = complaints(&finished.printed()).first() {
                return self.wrong(format!("the {side} exited with 0 and yet says: {line}"));
            }
        }
        Ok(())
    }

    /// A failure that shows what both sides printed.
    pub fn wrong<T>(&self, why: impl Into<String>) -> Verdict<T> {
        failed(format!(
            "{}\nthe client:\n{}the server:\n{}",
            why.into(),
            self.client.report(),
            self.server.report()
        ))
    }
}
