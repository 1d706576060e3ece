//! The pingpongs of `ibverbs-utils`: RC, UC, UD and shared receive queues, by LID and by GID, polling and sleeping.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, environments};
use nonic_interop::output::{PingpongAddress, PingpongResult, pingpong, pingpong_address};
use nonic_interop::pair::Pair;
use nonic_interop::suite::{Suite, Verdict, everything, skipped};
use nonic_interop::toolbox::is_root;

/// How the sides address each other.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Lid,
    Gid,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    program: &'static str,
    by: By,
    size: u64,
    iterations: u64,
    /// Further options, the same on both sides.
    options: &'static str,
    /// Runs in every environment.
    everywhere: bool,
}

const fn case(program: &'static str, by: By, size: u64, iterations: u64, options: &'static str) -> Case {
    Case { program, by, size, iterations, options, everywhere: false }
}

const fn everywhere(case: Case) -> Case {
    Case { everywhere: true, ..case }
}

const RC: &str = "ibv_rc_pingpong";
const UC: &str = "ibv_uc_pingpong";
const UD: &str = "ibv_ud_pingpong";
const SRQ: &str = "ibv_srq_pingpong";

const CASES: &[Case] = &[
    everywhere(case(RC, By::Lid, 4096, 1000, "-c")),
    everywhere(case(RC, By::Gid, 4096, 1000, "-c")),
    everywhere(case(RC, By::Gid, 1000, 300, "-c -e")),
    case(RC, By::Lid, 4096, 1000, ""),
    case(RC, By::Lid, 4096, 300, "-c -e"),
    case(RC, By::Gid, 1, 500, "-c"),
    case(RC, By::Gid, 64, 500, "-c"),
    case(RC, By::Gid, 1000, 500, "-c -m 256"),
    case(RC, By::Gid, 65536, 200, "-c -m 4096"),
    case(RC, By::Gid, 65536, 100, "-c -e"),
    everywhere(case(RC, By::Gid, 1_048_576, 50, "-c")),
    case(RC, By::Gid, 4096, 500, "-c -r 2"),
    case(RC, By::Gid, 4096, 500, "-c -d nonic0 -i 1 -l 3"),
    everywhere(case(RC, By::Gid, 4096, 500, "-j -c")),
    case(RC, By::Lid, 4096, 500, "-j"),
    case(RC, By::Gid, 64, 500, "-j -c"),
    // Posts with the `ibv_wr_*` calls.
    everywhere(case(RC, By::Gid, 4096, 1000, "-c -N")),
    case(RC, By::Gid, 64, 500, "-N"),
    case(RC, By::Gid, 65536, 100, "-c -e -N"),
    // Memory that is paged on demand: a region, and the whole address space, fetched before.
    everywhere(case(RC, By::Gid, 4096, 500, "-c -o")),
    case(RC, By::Gid, 65536, 100, "-c -o -P"),
    everywhere(case(RC, By::Gid, 4096, 300, "-c -O")),
    case(RC, By::Gid, 65536, 100, "-c -e -O -P"),
    // Reads completions one by one, with the device's clock. Not with -e: the program ends with "poll CQ failed 2" when one event
    // follows for a completion that it has read with the one before, which every device may do.
    everywhere(case(RC, By::Gid, 4096, 500, "-c -t")),
    case(RC, By::Lid, 64, 300, "-t"),
    case(RC, By::Gid, 1000, 300, "-c -t"),
    case(RC, By::Gid, 4096, 300, "-c -t -j -N"),
    case(RC, By::Gid, 65536, 100, "-j -c"),
    case(RC, By::Gid, 1_048_576, 20, "-j -c"),
    case(RC, By::Gid, 4096, 300, "-j -c -e"),
    everywhere(case(UC, By::Lid, 4096, 1000, "-c")),
    everywhere(case(UC, By::Gid, 4096, 500, "-c -e")),
    case(UC, By::Gid, 1, 500, "-c"),
    case(UC, By::Gid, 64, 500, "-c"),
    case(UC, By::Gid, 1000, 500, "-c -m 512"),
    case(UC, By::Gid, 65536, 200, "-c"),
    case(UC, By::Gid, 1_048_576, 50, "-c"),
    everywhere(case(UD, By::Lid, 2048, 1000, "-c")),
    everywhere(case(UD, By::Gid, 2048, 500, "-c -e")),
    case(UD, By::Gid, 1, 500, "-c"),
    case(UD, By::Gid, 64, 500, "-c"),
    case(UD, By::Gid, 1000, 500, "-c"),
    case(UD, By::Gid, 4096, 500, "-c"),
    everywhere(case(SRQ, By::Lid, 4096, 1000, "-c")),
    everywhere(case(SRQ, By::Gid, 4096, 1000, "-c -e")),
    case(SRQ, By::Gid, 1, 500, "-c"),
    case(SRQ, By::Gid, 64, 500, "-c -q 1"),
    case(SRQ, By::Gid, 1000, 2000, "-c -q 64"),
    case(SRQ, By::Gid, 65536, 200, "-c -q 4"),
    case(SRQ, By::Gid, 1_048_576, 40, "-c -q 2"),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        for environment in environments().iter() {
            if case.fits(environment) {
                let (case, environment) = (*case, *environment);
                suite.test(case.sentence(&environment), move || case.run(environment));
            }
        }
    }
    for case in BETWEEN_USERS {
        let how = if case.options.contains("-e") { ", sleeping" } else { "" };
        suite.test(format!("{} runs between two users{how}", case.program), move || between_two_users(case));
    }
    suite.test(
        "ibv_rc_pingpong by GID runs with an Ethernet side and an InfiniBand side asked for by flag",
        by_flag,
    );
    suite.run()
}

impl Case {
    fn fits(&self, environment: &Environment) -> bool {
        let as_it_comes = environment.name == AS_IT_COMES.name;
        // An Ethernet port has no LID.
        let addressable = self.by == By::Gid || environment.link != Some(Link::Ethernet);
        addressable && (as_it_comes || self.everywhere || everything())
    }

    fn sentence(&self, environment: &Environment) -> String {
        let by = if self.by == By::Lid { "LID" } else { "GID" };
        let mut sentence = format!("{} of {} bytes by {by}", self.program, self.size);
        if !self.options.is_empty() {
            sentence = format!("{sentence} with {}", self.options);
        }
        format!("{sentence} brings every byte, {}", environment.name)
    }

    fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> =
            ["-s", &self.size.to_string(), "-n", &self.iterations.to_string()].map(Into::into).into();
        if self.by == By::Gid {
            words.extend(["-g".into(), "0".into()]);
        }
        words.extend(self.options.split_whitespace().map(Into::into));
        words
    }

    fn run(&self, environment: Environment) -> Verdict {
        // A LID needs an InfiniBand port, whatever the default is.
        let link = if self.by == By::Lid { Some(Link::InfiniBand) } else { environment.link };
        let place = Place::prepare(Environment { link, ..environment })?;
        self.judge(&Pair::run(&place, self.program, &self.arguments())?)
    }

    fn judge(&self, pair: &Pair) -> Verdict {
        pair.is_clean()?;
        let expected = PingpongResult { bytes: self.size * self.iterations * 2, iterations: self.iterations };
        for (side, text) in [("client", &pair.client.stdout), ("server", &pair.server.stdout)] {
            match pingpong(text) {
                Some(result) if result == expected => {}
                Some(result) => {
                    return pair.wrong(format!("the {side} reports {result:?}, expected {expected:?}"));
                }
                None => return pair.wrong(format!("the {side} did not report its result")),
            }
            if self.options.contains("-t") && !text.contains("Average receive completion clock cycles") {
                return pair.wrong(format!("the {side} has no times of its completions"));
            }
            self.judge_address(pair, side, pingpong_address(text, "local"))?;
            self.judge_address(pair, side, pingpong_address(text, "remote"))?;
        }
        Ok(())
    }

    fn judge_address(&self, pair: &Pair, side: &str, address: Option<PingpongAddress>) -> Verdict {
        let good = address.as_ref().is_some_and(|address| match self.by {
            By::Lid => address.lid != 0 && address.gid == "::",
            By::Gid => address.gid != "::",
        });
        if good {
            Ok(())
        } else {
            pair.wrong(format!("the {side} has no address of the kind used: {address:?}"))
        }
    }
}

/// Datagrams, too: the first one comes over a link that nobody on the other side talks through yet.
const BETWEEN_USERS: &[Case] = &[
    case(RC, By::Gid, 4096, 1000, "-c"),
    case(RC, By::Gid, 4096, 300, "-e"),
    case(UD, By::Gid, 1024, 1000, ""),
    case(UD, By::Gid, 1024, 300, "-e"),
];

fn between_two_users(case: &Case) -> Verdict {
    if !is_root() {
        return skipped("needs root, to become two different users");
    }
    let here = Place::prepare(AS_IT_COMES)?;
    let there = Place::prepare(AS_IT_COMES)?.user(65533);
    case.judge(&Pair::run_between(&here, &there, case.program, &case.arguments())?)?;
    case.judge(&Pair::run_between(&there, &here, case.program, &case.arguments())?)
}

fn by_flag() -> Verdict {
    let case = case(RC, By::Gid, 4096, 500, "-c");
    let here = Place::prepare(Environment { link: Some(Link::Ethernet), ..AS_IT_COMES })?;
    let there = Place::prepare(Environment { link: Some(Link::InfiniBand), ..AS_IT_COMES })?;
    case.judge(&Pair::run_between(&here, &there, case.program, &case.arguments())?)
}
