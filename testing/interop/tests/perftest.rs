//! perftest without `-R`: bandwidth and latency of writes, reads, sends and atomics, on every service.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, ETHERNET, Environment, Place, environments};
use nonic_interop::output::{PerftestRow, perftest};
use nonic_interop::pair::Pair;
use nonic_interop::suite::{Suite, Verdict, everything, skipped};

/// How many rows a table has with `-a`: sizes 2, 4, … 2^23.
const ALL_SIZES: usize = 23;
/// UD stops at the MTU, 4096.
const DATAGRAM_SIZES: usize = 12;

#[derive(Debug, Clone, Copy)]
struct Case {
    program: &'static str,
    options: &'static str,
    /// Of the client's table.
    rows: usize,
    when: When,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    /// As it comes, and everywhere if everything is asked for.
    AsItComes,
    /// In every environment.
    Everywhere,
    /// On an Ethernet port alone.
    OnEthernet,
    /// Only if everything is asked for: perftest takes half a second per size to find its clock.
    Full,
}

const fn case(program: &'static str, options: &'static str) -> Case {
    Case { program, options, rows: 1, when: When::AsItComes }
}

const fn sizes(program: &'static str, options: &'static str, rows: usize) -> Case {
    Case { program, options, rows, when: When::AsItComes }
}

const fn everywhere(case: Case) -> Case {
    Case { when: When::Everywhere, ..case }
}

/// The other end of a group has an address of IPv6, to which perftest compares its own.
const fn to_a_group(program: &'static str, options: &'static str) -> Case {
    Case { when: When::OnEthernet, ..case(program, options) }
}

const fn full(case: Case) -> Case {
    Case { when: When::Full, ..case }
}

const CASES: &[Case] = &[
    // ---- RDMA write
    everywhere(case("ib_write_bw", "-n 1000 -d nonic0")),
    case("ib_write_bw", "-n 1000 -c UC"),
    sizes("ib_write_bw", "-n 50 -a", ALL_SIZES),
    full(sizes("ib_write_bw", "-n 30 -a -b", ALL_SIZES)),
    full(sizes("ib_write_bw", "-n 30 -a -c UC", ALL_SIZES)),
    case("ib_write_bw", "-n 1000 -b"),
    case("ib_write_bw", "-n 500 -q 4"),
    case("ib_write_bw", "-n 500 -q 4 -b -c UC"),
    case("ib_write_bw", "-n 500 -q 4 --mr_per_qp"),
    case("ib_write_bw", "-n 500 -t 1"),
    case("ib_write_bw", "-n 8000 -t 4096 -s 64"),
    case("ib_write_bw", "-n 2000 -s 64 -I 64"),
    case("ib_write_bw", "-n 2000 -s 64 -l 16"),
    case("ib_write_bw", "-n 500 -Q 1"),
    everywhere(case("ib_write_bw", "-n 20 -s 8388608")),
    case("ib_write_bw", "-n 20 -s 8388608 -b"),
    case("ib_write_bw", "-D 1"),
    case("ib_write_bw", "-n 500 -x 0 --report_gbits"),
    // Both sides of ib_write_lat spin on memory and never yield: on a busy machine each turn costs a time slice.
    everywhere(case("ib_write_lat", "-n 200")),
    case("ib_write_lat", "-n 200 -c UC"),
    full(sizes("ib_write_lat", "-n 5 -a", ALL_SIZES)),
    case("ib_write_lat", "-n 200 -s 64 -I 64"),
    case("ib_write_lat", "-n 5 -s 8388608"),
    // ---- extended reliable connections
    everywhere(case("ib_send_bw", "-n 500 -c XRC")),
    case("ib_send_bw", "-n 300 -c XRC -b"),
    case("ib_send_bw", "-n 300 -c XRC -q 4"),
    full(sizes("ib_send_bw", "-n 30 -a -c XRC", ALL_SIZES)),
    case("ib_send_lat", "-n 300 -c XRC"),
    everywhere(case("ib_write_bw", "-n 500 -c XRC")),
    case("ib_write_bw", "-n 300 -c XRC -b -q 2"),
    case("ib_read_bw", "-n 300 -c XRC"),
    case("ib_read_lat", "-n 300 -c XRC"),
    case("ib_atomic_bw", "-n 300 -c XRC"),
    case("ib_atomic_lat", "-n 300 -c XRC -A CMP_AND_SWAP"),
    // ---- RDMA read
    case("ib_read_bw", "-n 1000"),
    sizes("ib_read_bw", "-n 50 -a", ALL_SIZES),
    full(sizes("ib_read_bw", "-n 30 -a -b", ALL_SIZES)),
    case("ib_read_bw", "-n 1000 -b"),
    case("ib_read_bw", "-n 500 -q 4"),
    everywhere(case("ib_read_bw", "-n 500 -e")),
    case("ib_read_bw", "-n 500 -t 1"),
    case("ib_read_bw", "-n 500 -o 1"),
    case("ib_read_bw", "-n 4000 -t 2048 -s 64"),
    case("ib_read_bw", "-n 20 -s 8388608"),
    case("ib_read_lat", "-n 1000"),
    full(sizes("ib_read_lat", "-n 20 -a", ALL_SIZES)),
    case("ib_read_lat", "-n 500 -e"),
    case("ib_read_lat", "-n 10 -s 8388608"),
    // ---- send
    everywhere(case("ib_send_bw", "-n 1000")),
    case("ib_send_bw", "-n 500 -c UC"),
    everywhere(case("ib_send_bw", "-n 500 -c UD -s 1024")),
    full(sizes("ib_send_bw", "-n 50 -a", ALL_SIZES)),
    sizes("ib_send_bw", "-n 30 -a -b", ALL_SIZES),
    full(sizes("ib_send_bw", "-n 50 -a -c UC", ALL_SIZES)),
    sizes("ib_send_bw", "-n 50 -a -c UD", DATAGRAM_SIZES),
    case("ib_send_bw", "-n 1000 -b"),
    case("ib_send_bw", "-n 500 -q 4"),
    case("ib_send_bw", "-n 300 -q 4 -b"),
    case("ib_send_bw", "-n 500 -e"),
    case("ib_send_bw", "-n 500 -e -b"),
    case("ib_send_bw", "-n 300 -e -c UC"),
    case("ib_send_bw", "-n 300 -e -c UD -s 1024"),
    everywhere(case("ib_send_bw", "-n 500 --use-srq")),
    case("ib_send_bw", "-n 300 --use-srq -q 4"),
    case("ib_send_bw", "-n 300 --use-srq -c UD -s 1024"),
    case("ib_send_bw", "-n 2000 -s 64 -I 64"),
    case("ib_send_bw", "-n 500 -t 1"),
    case("ib_send_bw", "-n 500 -t 1 -r 1"),
    case("ib_send_bw", "-n 8000 -t 2048 -r 4096 -s 64"),
    case("ib_send_bw", "-n 2000 -s 64 -l 16"),
    case("ib_send_bw", "-n 20 -s 8388608"),
    case("ib_send_lat", "-n 1000"),
    case("ib_send_lat", "-n 500 -c UC"),
    case("ib_send_lat", "-n 500 -c UD"),
    full(sizes("ib_send_lat", "-n 20 -a", ALL_SIZES)),
    full(sizes("ib_send_lat", "-n 20 -a -c UD", DATAGRAM_SIZES)),
    to_a_group("ib_send_bw", "-n 500 -c UD -g -x 0 -s 1024"),
    to_a_group("ib_send_lat", "-n 500 -c UD -g -x 0"),
    case("ib_send_lat", "-n 500 -e"),
    case("ib_send_lat", "-n 500 -e -c UD"),
    case("ib_send_lat", "-n 500 --use-srq"),
    case("ib_send_lat", "-n 500 -s 64 -I 64"),
    case("ib_send_lat", "-n 10 -s 8388608"),
    // ---- atomics
    everywhere(case("ib_atomic_bw", "-n 1000 -A FETCH_AND_ADD")),
    case("ib_atomic_bw", "-n 1000 -A CMP_AND_SWAP"),
    case("ib_atomic_bw", "-n 500 -A CMP_AND_SWAP -b"),
    case("ib_atomic_bw", "-n 500 -A FETCH_AND_ADD -q 4"),
    case("ib_atomic_bw", "-n 500 -A FETCH_AND_ADD -e"),
    case("ib_atomic_bw", "-n 500 -A CMP_AND_SWAP -t 1"),
    case("ib_atomic_bw", "-n 4000 -A FETCH_AND_ADD -t 2048"),
    case("ib_atomic_bw", "-n 500 -A FETCH_AND_ADD -o 1"),
    case("ib_atomic_lat", "-n 1000 -A CMP_AND_SWAP"),
    case("ib_atomic_lat", "-n 1000 -A FETCH_AND_ADD"),
    case("ib_atomic_lat", "-n 500 -A CMP_AND_SWAP -e"),
];

fn main() -> ExitCode {
    // perftest sleeps for a second before it measures.
    let mut suite = Suite::new().crowd(2);
    for case in CASES {
        for environment in environments().iter() {
            let wanted = match case.when {
                When::AsItComes => environment.name == AS_IT_COMES.name,
                When::Everywhere => true,
                When::OnEthernet => environment.name == ETHERNET.name,
                When::Full => false,
            };
            if wanted || everything() && case.when != When::OnEthernet {
                let (case, environment) = (*case, *environment);
                let sentence =
                    format!("{} {} measures something, {}", case.program, case.options, environment.name);
                suite.test(sentence, move || case.run(environment));
            }
        }
    }
    suite.run()
}

impl Case {
    fn run(&self, environment: Environment) -> Verdict {
        let place = Place::prepare(environment)?;
        // -F: no complaint about a CPU whose clock changes.
        let mut arguments = vec!["-F".to_owned()];
        arguments.extend(self.options.split_whitespace().map(Into::into));
        if environment.one_cpu {
            // Each turn costs a time slice of the scheduler where both sides spin; the last -n counts.
            arguments.extend(["-n".into(), self.iterations(environment).to_string()]);
        }
        let pair = self.with_a_clock(|| Pair::run(&place, self.program, &arguments))?;
        pair.is_clean()?;
        let least = self.iterations(environment);
        self.judge(&pair, "client", perftest(&pair.client.stdout), Some(self.rows), least)?;
        // Where only the client works, the server may print no table; what it prints must still be sound.
        self.judge(&pair, "server", perftest(&pair.server.stdout), None, least)
    }

    /// perftest first finds the clock's rate by sampling, gives up when the samples scatter too much (other processes
    /// in between) and then prints zeros. That says nothing about the transfer, so it is asked again.
    fn with_a_clock(&self, run: impl Fn() -> Verdict<Pair>) -> Verdict<Pair> {
        const NO_CLOCK: &str = "Correlation coefficient";
        let without =
            |pair: &Pair| pair.client.stderr.contains(NO_CLOCK) || pair.server.stderr.contains(NO_CLOCK);
        let mut pair = run()?;
        for _ in 0..5 {
            if !without(&pair) {
                return Ok(pair);
            }
            pair = run()?;
        }
        if without(&pair) {
            return skipped(format!(
                "the CPU is too busy for {} to find its clock, six times in a row",
                self.program
            ));
        }
        Ok(pair)
    }

    /// How many iterations are asked for.
    fn iterations(&self, environment: Environment) -> u64 {
        let wanted = self.option("-n").unwrap_or(1);
        if environment.one_cpu { wanted.min(100) } else { wanted }
    }

    fn judge(
        &self,
        pair: &Pair,
        side: &str,
        rows: Vec<PerftestRow>,
        expected: Option<usize>,
        least: u64,
    ) -> Verdict {
        if expected.is_some_and(|expected| rows.len() != expected) {
            return pair.wrong(format!(
                "the {side} printed {} rows of results, expected {}",
                rows.len(),
                self.rows
            ));
        }
        for row in &rows {
            if !row.is_positive() {
                return pair.wrong(format!("the {side} measured nothing: {row:?}"));
            }
            if row.iterations < least {
                return pair.wrong(format!("the {side} ran {} of {least} iterations", row.iterations));
            }
        }
        match (self.option("-s"), rows.as_slice()) {
            (Some(size), [row]) if row.bytes != size => {
                pair.wrong(format!("the {side} reports messages of {} bytes, expected {size}", row.bytes))
            }
            _ => Ok(()),
        }
    }

    /// The number after an option.
    fn option(&self, name: &str) -> Option<u64> {
        let mut words = self.options.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse().ok()
    }
}
