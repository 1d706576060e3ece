//! What `nonic bench` and `nonic bench-scale` are told alike: where to measure, and what to write.

use std::path::PathBuf;

use clap::Args;

use crate::demo::failure::{Failure, Outcome, ensure};

/// Options of both commands.
#[derive(Args, Debug)]
pub(super) struct CommonOptions {
    /// The two processors, by number [default: the first two this process may use]
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    processors: Vec<usize>,

    /// A word that goes with the results, such as the commit
    #[arg(long, value_name = "TEXT")]
    pub(super) label: Option<String>,

    /// Write everything that was measured to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

impl CommonOptions {
    /// Where the two run, and where this process may.
    pub(super) fn processors(&self) -> Outcome<([usize; 2], Vec<usize>)> {
        let set = rustix::thread::sched_getaffinity(None)
            .map_err(|error| Failure::new(format!("cannot tell where this process may run: {error}")))?;
        let all: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect();
        let chosen =
            if self.processors.is_empty() { all.get(..2).unwrap_or(&all) } else { &self.processors[..] };
        let [left, right] = *chosen else {
            let words = "two processors are needed, one for each process; this process may use";
            return Err(Failure::new(format!("{words} {all:?}, and chosen were {chosen:?}")));
        };
        ensure(left != right && all.contains(&left) && all.contains(&right), || {
            format!("the processors must be two of {all:?}, and chosen were {chosen:?}")
        })?;
        Ok(([left, right], all))
    }
}

/// Writes each file that was asked for; only then its text is made.
pub(super) fn write_files(files: &[(&Option<PathBuf>, &dyn Fn() -> String)]) -> Outcome<()> {
    for (path, text) in files {
        if let Some(path) = path {
            std::fs::write(path, text())
                .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display())))?;
        }
    }
    Ok(())
}
