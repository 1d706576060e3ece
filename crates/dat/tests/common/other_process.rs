//! What a second process does, which has one side of a connection.

use std::sync::Arc;

use nonic_dat::{ConnectionRequest, Event, EventDispatcher, PublicServicePoint, Streams};
use nonic_second_process::{SecondProcess, role};

use super::connected::{PATIENCE, PLAIN, Plan, Side, next};

/// Starts one. The test program has a test named `servant`, which calls [`serve`].
pub(crate) fn start() -> SecondProcess {
    SecondProcess::start("servant", "servant", &[])
}

/// The number it answers.
pub(crate) fn number(other: &mut SecondProcess, text: &str) -> u64 {
    other.tell(text).parse().unwrap()
}

/// What the second process does.
pub(crate) fn serve() {
    if role().is_some() {
        let mut servant = Servant::new();
        nonic_second_process::serve(|command, rest| servant.obey(command, rest));
    }
}

struct Servant {
    side: Side,
    requests: Arc<EventDispatcher>,
    conn_qual: u64,
    point: Arc<PublicServicePoint>,
    request: Option<Arc<ConnectionRequest>>,
}

impl Servant {
    fn new() -> Self {
        let side = Side::new(&Plan::default());
        let requests = EventDispatcher::create(&side.adapter, 64, None, Streams::CONNECTION_REQUEST).unwrap();
        let (conn_qual, point) = PublicServicePoint::create_any(&side.adapter, &requests, false).unwrap();
        Self { side, requests, conn_qual, point, request: None }
    }

    fn next_request(&self) -> Arc<ConnectionRequest> {
        let mut found = None;
        let (result, _) = self.requests.wait(PATIENCE, 1, |event| {
            let Event::Request { request, .. } = event else { panic!("{event:?}") };
            found = Some(Arc::clone(request));
        });
        result.unwrap();
        found.unwrap()
    }

    fn obey(&mut self, command: &str, rest: &str) -> String {
        let number = || rest.parse::<u64>().unwrap();
        let done =
            |result: nonic_dat::DatResult<()>| result.map_or_else(|e| e.to_string(), |()| "ok".to_owned());
        let side = &self.side;
        match command {
            "qualifier" => self.conn_qual.to_string(),
            "next" => {
                self.request = Some(self.next_request());
                "ok".into()
            }
            "accept" => done(self.request.take().unwrap().accept(Some(&side.endpoint), rest.as_bytes())),
            "reject" => done(self.request.take().unwrap().reject(rest.as_bytes())),
            "connect" => {
                done(side.endpoint.connect(side.adapter.address(), number(), PATIENCE, b"servant", 0, 0))
            }
            "told" => format!("{:?}", next(&side.connections)),
            "receive" => {
                side.receive(number(), 4096);
                "ok".into()
            }
            "send" => done(side.send(number(), 8, PLAIN)),
            "done" => format!("{:?}", side.next()),
            "disconnect" => done(side.endpoint.disconnect(rest == "graceful")),
            "reset" => done(side.endpoint.reset()),
            "memory" => {
                let remote = side.remote(0, 4096);
                format!("{} {} {}", remote.context, remote.address, remote.length)
            }
            "byte" => side.pages.read(number() as usize).to_string(),
            // Takes so many connections one after the other, each ended by the peer.
            "turns" => {
                for _ in 0..number() {
                    self.next_request().accept(Some(&side.endpoint), b"").unwrap();
                    // ESTABLISHED, DISCONNECTED.
                    next(&side.connections);
                    next(&side.connections);
                    side.endpoint.reset().unwrap();
                }
                "ok".into()
            }
            // A child that tries everything with its parent's objects, and what it finds.
            "fork" => {
                // SAFETY: the child leaves by `_exit`.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    // Threads that are not here may hold the locks of these.
                    let refused = [
                        side.endpoint.disconnect(false),
                        side.endpoint.free(),
                        side.endpoint.reset(),
                        side.endpoint.status().map(drop),
                        side.endpoint.connect(side.adapter.address(), 1, PATIENCE, b"", 0, 0),
                        self.point.free(),
                        side.adapter.close(false),
                    ];
                    let good = refused.iter().all(Result::is_err);
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(if good { 7 } else { 1 }) };
                }
                let mut status = 0;
                // SAFETY: waits for the child made above.
                unsafe { libc::waitpid(pid, &raw mut status, 0) };
                libc::WEXITSTATUS(status).to_string()
            }
            other => panic!("no such command: {other}"),
        }
    }
}
