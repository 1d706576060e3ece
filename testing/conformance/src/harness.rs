//! Runs every rule in every arrangement. The process that was started runs none itself: it starts one for each
//! arrangement, as many at once as there are processors, reads what they print, and ends those that hang.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command as Program, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::arrangement::{ARRANGEMENTS, Arrangement};
use crate::pair::{NotHere, Pair};
use crate::rules::{Rule, all};
use crate::table::{Table, Verdict};
use crate::transport::{SERVER, serve};

/// The variable that makes a process run an arrangement from a certain rule on: two numbers.
const WORKER: &str = "NONIC_CONFORMANCE_WORKER";
/// The variable that chooses rules and arrangements by a part of their name.
const ONLY: &str = "NONIC_CONFORMANCE_ONLY";
/// No rule takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

static PANIC: Mutex<String> = Mutex::new(String::new());

/// What the last panic said.
pub(crate) fn last_panic() -> String {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The whole program.
pub(crate) fn run() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string().replace('\n', " ");
    }));
    if std::env::var_os(SERVER).is_some() {
        return if serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Ok(task) = std::env::var(WORKER) {
        return work(&task);
    }
    supervise()
}

fn wanted(rule: &Rule, arrangement: &Arrangement) -> bool {
    if !arrangement.speaks_of(rule.id) {
        return false;
    }
    let Ok(only) = std::env::var(ONLY) else { return true };
    only.split('&').all(|part| rule.sentence().contains(part) || rule.id == part || arrangement.name == part)
}

// The supervisor.

fn supervise() -> ExitCode {
    let started = Instant::now();
    let rules = all();
    let table = Mutex::new(Table::default());
    let is_wanted = |number: &usize| rules.iter().any(|rule| wanted(rule, &ARRANGEMENTS[*number]));
    let chosen: Vec<usize> = (0..ARRANGEMENTS.len()).filter(is_wanted).collect();
    let next = AtomicUsize::new(0);
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(chosen.len()) {
            scope.spawn(|| {
                while let Some(&number) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_arrangement(&rules, number, &table);
                }
            });
        }
    });
    let table = table.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<_> = rules.iter().map(|rule| (rule.id, rule.sentence())).collect();
    let arrangements: Vec<_> = ARRANGEMENTS.iter().map(|arrangement| arrangement.name).collect();
    println!("\n{} rules in {:.1} s", rules.len(), started.elapsed().as_secs_f64());
    table.print(&names, &arrangements);
    if table.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_arrangement(rules: &[Rule], arrangement: usize, table: &Mutex<Table>) {
    let (began, mut next) = (Instant::now(), 0);
    while next < rules.len() {
        next = run_worker(rules, arrangement, next, table);
    }
    println!("{}: {:.1} s", ARRANGEMENTS[arrangement].name, began.elapsed().as_secs_f64());
}

/// Runs one arrangement from a rule on, until all have run or one has failed; returns the rule to go on with.
fn run_worker(rules: &[Rule], arrangement: usize, first: usize, table: &Mutex<Table>) -> usize {
    let Arrangement { name, settings, .. } = ARRANGEMENTS[arrangement];
    let enter = |rule: usize, verdict: Verdict| {
        show(name, &rules[rule], &verdict);
        table.lock().unwrap_or_else(PoisonError::into_inner).enter(rule, arrangement, verdict);
    };
    let program = std::env::current_exe().expect("a program knows its own path");
    let mut child = Program::new(program)
        .env(WORKER, format!("{arrangement} {first}"))
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can start itself");
    let lines = lines_of(child.stdout.take().expect("its output was asked for"));
    let mut running = None;
    let stopped = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => match parse(&line) {
                Some((rule, None)) => running = Some(rule),
                Some((rule, Some(verdict))) => {
                    running = None;
                    enter(rule, verdict);
                }
                None => println!("{name}: {line}"),
            },
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break "hangs",
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break "ended the process",
        }
    };
    let _ = child.kill();
    let status = child.wait().expect("a child can be waited for");
    let Some(rule) = running else {
        let table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let last = table.last_of(arrangement).map_or(first, |rule| rule + 1);
        return if status.success() { rules.len() } else { last.max(first + 1) };
    };
    enter(rule, Verdict::Fails(format!("{stopped} ({status})")));
    rule + 1
}

fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn show(arrangement: &str, rule: &Rule, verdict: &Verdict) {
    if let Verdict::Fails(reason) = verdict {
        println!("{arrangement}: FAIL {} {}: {reason}", rule.id, rule.sentence());
    }
}

/// A line of a worker: a rule, and its verdict unless it only begins.
fn parse(line: &str) -> Option<(usize, Option<Verdict>)> {
    let mut words = line.strip_prefix("\u{1}")?.splitn(3, ' ');
    let (word, rule) = (words.next()?, words.next()?.parse().ok()?);
    let reason = words.next().unwrap_or_default().to_owned();
    Some((
        rule,
        match word {
            "begin" => None,
            "holds" => Some(Verdict::Holds),
            "fails" => Some(Verdict::Fails(reason)),
            "skip" => Some(Verdict::Skipped(reason)),
            _ => return None,
        },
    ))
}

// The worker.

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn work(task: &str) -> ExitCode {
    let mut numbers = task.split(' ').map(|word| word.parse::<usize>().expect("a number"));
    let (arrangement, first) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let arrangement = &ARRANGEMENTS[arrangement];
    let rules = all();
    let chosen: Vec<_> =
        rules.iter().enumerate().skip(first).filter(|(_, rule)| wanted(rule, arrangement)).collect();
    let mut pair = None;
    for (number, rule) in chosen {
        tell(&format!("\u{1}begin {number}"));
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let pair = pair.get_or_insert_with(|| Pair::open(arrangement));
            (rule.run)(pair);
            pair.reset();
        }));
        let skipped = outcome.as_ref().err().and_then(|payload| payload.downcast_ref::<NotHere>());
        if outcome.is_ok() {
            if std::env::var_os(ONLY).is_some() || began.elapsed() > Duration::from_millis(700) {
                tell(&format!("{:6.1} ms  {}", began.elapsed().as_secs_f64() * 1e3, rule.sentence()));
            }
            tell(&format!("\u{1}holds {number}"));
        } else if let Some(NotHere(reason)) = skipped {
            tell(&format!("\u{1}skip {number} {reason}"));
        } else {
            tell(&format!("\u{1}fails {number} {}", last_panic()));
            // What the rule left behind must not disturb the next: a new process begins there.
            std::process::exit(1);
        }
    }
    ExitCode::SUCCESS
}
