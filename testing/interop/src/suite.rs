//! Turns rows of tables into tests, and runs them.

use std::fmt;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

use crate::toolbox;

/// Why a test did not pass.
#[derive(Debug)]
pub enum Stop {
    /// The thing under test is wrong, or something the test needs is not installed.
    Failed(String),
    /// The machine cannot give what the test needs. Printed and counted as ignored.
    Skipped(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => write!(f, "{why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

/// What a test returns.
pub type Verdict<T = ()> = Result<T, Stop>;

/// A failure with this text.
pub fn failed<T>(why: impl Into<String>) -> Verdict<T> {
    Err(Stop::Failed(why.into()))
}

/// A skip with this reason.
pub fn skipped<T>(why: impl Into<String>) -> Verdict<T> {
    Err(Stop::Skipped(why.into()))
}

/// The tests of one file, collected row by row.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
    /// How many tests run at once, unless the command line says so.
    at_once: Option<usize>,
}

impl Suite {
    /// An empty suite.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs this many tests at once for each CPU instead of one: for programs that mostly sleep.
    pub fn crowd(mut self, tests_per_cpu: usize) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
        self.at_once = Some(cpus * tests_per_cpu);
        self
    }

    /// Runs one test after the other: for pairs of programs that look for each other's answers all the time, and have a CPU
    /// each then.
    pub fn one_at_a_time(mut self) -> Self {
        self.at_once = Some(1);
        self
    }

    /// Adds a test. The name is a sentence.
    pub fn test(&mut self, sentence: impl Into<String>, body: impl FnOnce() -> Verdict + Send + 'static) {
        let sentence = sentence.into();
        let name = sentence.clone();
        self.trials.push(Trial::ignorable_test(sentence, move || match body() {
            Ok(()) => Ok(Completion::Completed),
            Err(Stop::Skipped(why)) => {
                eprintln!("SKIPPED: {name}: {why}");
                Ok(Completion::ignored_with(why))
            }
            Err(Stop::Failed(why)) => Err(why.into()),
        }));
    }

    /// Runs what the command line asks for. The last thing a test file does.
    pub fn run(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        arguments.test_threads = arguments.test_threads.or(self.at_once);
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        toolbox::clean_up();
        conclusion.exit_code()
    }
}

/// Whether every case is to run in every environment.
pub fn everything() -> bool {
    std::env::var_os("NONIC_INTEROP_FULL").is_some_and(|value| value != "0" && !value.is_empty())
}
