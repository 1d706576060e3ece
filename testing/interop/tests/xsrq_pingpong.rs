//! `ibv_xsrq_pingpong` of `ibverbs-utils`: clients that all send to one shared receive queue of the server's XRC domain, each over
//! a connection of its own, by LID and by GID, polling and sleeping.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::compile_with;
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, environments};
use nonic_interop::output::complaints;
use nonic_interop::port::TcpPort;
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, everything, failed, skipped};
use nonic_interop::toolbox::{is_root, program};

#[derive(Debug, Clone, Copy)]
struct Case {
    clients: usize,
    /// The same on all sides.
    options: &'static str,
    /// Runs in every environment.
    everywhere: bool,
}

const CASES: &[Case] = &[
    Case { clients: 1, options: "", everywhere: true },
    Case { clients: 1, options: "-g 0", everywhere: true },
    Case { clients: 3, options: "-g 0 -n 200", everywhere: true },
    Case { clients: 1, options: "-g 0 -e -n 100", everywhere: true },
    Case { clients: 5, options: "-e -n 50", everywhere: false },
    Case { clients: 2, options: "-g 0 -s 1 -n 300", everywhere: false },
    Case { clients: 2, options: "-g 0 -s 65536 -m 4096 -n 100", everywhere: false },
    Case { clients: 2, options: "-s 1048576 -n 20 -l 3 -i 1 -d nonic0", everywhere: false },
];

/// Its file for the domain is always the same one, `/tmp/xrc_domain`, and a user's own: beside another user it takes a domain
/// without a file.
const NO_FILE: &str = "Couldn't create the file for the XRC Domain but not stopping";

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        for environment in environments().iter().filter(|environment| case.fits(environment)) {
            let (case, environment) = (*case, *environment);
            let Case { clients, options, .. } = case;
            let sentence =
                format!("ibv_xsrq_pingpong of {clients} clients with {options:?}, {}", environment.name);
            suite.test(sentence, move || {
                // A LID needs an InfiniBand port, whatever the default is.
                let link = if case.by_lid() { Some(Link::InfiniBand) } else { environment.link };
                let place = Place::prepare(Environment { link, ..environment })?;
                case.run(&place, &place)
            });
        }
    }
    suite.test("ibv_xsrq_pingpong runs between two users", || {
        if !is_root() {
            return skipped("needs root, to become two different users");
        }
        let case = Case { clients: 2, options: "-g 0 -n 100", everywhere: false };
        case.run(&Place::prepare(AS_IT_COMES)?, &Place::prepare(AS_IT_COMES)?.user(65533))
    });
    suite.test("ibv_xsrq_pingpong goes on when a client is ready to receive only after 0.9 s", || {
        let late = compile_with("late_receiver", &["-shared", "-fPIC"])?.display().to_string();
        let case = Case { clients: 2, options: "-g 0 -n 50", everywhere: false };
        let clients = Place::prepare(AS_IT_COMES)?.variable("LD_PRELOAD", &late);
        let finished = case.run_both(&Place::prepare(AS_IT_COMES)?, &clients)?;
        match finished.iter().all(|client| client.stderr.contains("receives late")) {
            true => Ok(()),
            false => failed("a client was not late: nothing is shown"),
        }
    });
    suite.run()
}

impl Case {
    fn by_lid(&self) -> bool {
        !self.options.contains("-g")
    }

    fn fits(&self, environment: &Environment) -> bool {
        let addressable = !self.by_lid() || environment.link != Some(Link::Ethernet);
        addressable && (environment.name == AS_IT_COMES.name || self.everywhere || everything())
    }

    fn run(&self, here: &Place, there: &Place) -> Verdict {
        self.run_both(here, there).map(drop)
    }

    /// Gives back what the clients said.
    fn run_both(&self, here: &Place, there: &Place) -> Verdict<Vec<Finished>> {
        let port = TcpPort::claim()?;
        let mut words =
            vec![program("ibv_xsrq_pingpong")?.display().to_string(), "-p".into(), port.number().to_string()];
        words.extend(self.options.split_whitespace().map(Into::into));
        let mut served = words.clone();
        served.extend(["-c".into(), self.clients.to_string()]);
        let mut server = here.nonic_run(served)?.start()?;
        server.listens_on(port.number())?;
        words.push("127.0.0.1".into());
        let started = (0..self.clients)
            .map(|_| there.nonic_run(words.clone())?.start())
            .collect::<Verdict<Vec<_>>>()?;
        let clients = started.into_iter().map(|client| client.finish()).collect::<Verdict<Vec<_>>>()?;
        let server = server.finish()?;
        self.judge(&server, &clients)?;
        Ok(clients)
    }

    /// All say that they succeeded, and the server names every client as that names itself, and the other way round.
    fn judge(&self, server: &Finished, clients: &[Finished]) -> Verdict {
        let wrong = |why: String| {
            let clients: String = clients.iter().map(Finished::report).collect();
            failed(format!("{why}\nthe server:\n{}the clients:\n{clients}", server.report()))
        };
        for (side, finished) in [("server", server)].into_iter().chain(clients.iter().map(|c| ("client", c)))
        {
            if !finished.succeeded() || !finished.stdout.lines().any(|line| line == "success") {
                return wrong(format!("a {side} ended with {} and without success", finished.status()));
            }
            let printed = finished.printed();
            if let Some(line) = complaints(&printed).iter().find(|line| !line.contains(NO_FILE)) {
                return wrong(format!("a {side} succeeded and yet says: {line}"));
            }
        }
        for client in clients {
            for (ours, theirs) in [("local", "remote"), ("remote", "local")] {
                let [Some(card)] = cards(&client.stdout, ours)[..] else {
                    return wrong(format!("a client has no {ours} address of its own"));
                };
                if !cards(&server.stdout, theirs).contains(&Some(card)) {
                    return wrong(format!("the server does not know {card:?} as {theirs}"));
                }
            }
        }
        Ok(())
    }
}

/// The lines that say who one side is: `  local: LID 0001, QPN RECV ea9000 SEND ea9001, PSN c023d5, SRQN ea9000, GID ::`.
fn cards<'a>(text: &'a str, side: &str) -> Vec<Option<&'a str>> {
    let said = |line: &'a str| line.trim_start().strip_prefix(side)?.strip_prefix(": ");
    let known =
        |card: &&str| card.contains("QPN RECV") && card.contains("SRQN ") && !card.contains("SRQN 000000");
    text.lines().filter_map(said).map(|card| Some(card).filter(known)).collect()
}
