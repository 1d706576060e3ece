//! Where a program runs: which tier, which link layer, which network namespace, which CPU, which user.

use std::time::Duration;

use crate::namespace::Namespace;
use crate::program::Program;
use crate::suite::{Verdict, everything, skipped};
use crate::toolbox::{ORDINARY_USER, Toolbox, is_root, program, scratch, step_down, succeeds};

/// How bytes travel: a value of `NONIC_TIER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier(pub &'static str);

/// What becomes of private memory that is registered: a value of `NONIC_ADOPT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Moved where peers map it, whenever that is safe.
    Adopted,
    /// Left where it is.
    Plain,
}

impl Pages {
    /// As the variable spells it.
    pub fn value(self) -> &'static str {
        match self {
            Self::Adopted => "always",
            Self::Plain => "never",
        }
    }
}

/// What the port claims to be: a value of `NONIC_LINK_LAYER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Non-zero LID; programs address by LID.
    InfiniBand,
    /// LID 0; programs address by GID.
    Ethernet,
}

/// One column of the matrix.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
    /// Completes the sentence that names a test.
    pub name: &'static str,
    /// `None`: whatever the library chooses.
    pub tier: Option<Tier>,
    /// `None`: whatever the library chooses.
    pub pages: Option<Pages>,
    /// `None`: the library's default.
    pub link: Option<Link>,
    /// In a network namespace with only `lo`.
    pub only_lo: bool,
    /// Both processes pinned to the same CPU.
    pub one_cpu: bool,
}

/// Nothing said: what a user gets who types the command.
pub const AS_IT_COMES: Environment =
    Environment { name: "as it comes", tier: None, pages: None, link: None, only_lo: false, one_cpu: false };

const fn way(name: &'static str, tier: &'static str, pages: Option<Pages>) -> Environment {
    Environment { name, tier: Some(Tier(tier)), pages, ..AS_IT_COMES }
}

/// The ways bytes can take. A new one is one line here.
const WAYS: &[Environment] = &[
    way("on the best tier", "auto", None),
    way("on the mapped tier with all memory adopted", "mapped", Some(Pages::Adopted)),
    way("on the mapped tier with no memory adopted", "mapped", Some(Pages::Plain)),
    way("on the kernel-copy tier", "kernel", None),
    way("on the ring tier", "ring", None),
];

/// Pairs that differ little from others: only if everything is asked for.
const FURTHER_WAYS: &[Environment] = &[
    way("on the kernel-copy tier with all memory adopted", "kernel", Some(Pages::Adopted)),
    way("on the kernel-copy tier with no memory adopted", "kernel", Some(Pages::Plain)),
    way("on the ring tier with all memory adopted", "ring", Some(Pages::Adopted)),
    way("on the ring tier with no memory adopted", "ring", Some(Pages::Plain)),
];

/// Whoever waits by looking keeps the CPU from what it waits for.
pub const ONE_CPU: Environment = Environment { name: "with both on one CPU", one_cpu: true, ..AS_IT_COMES };

/// Programs that ask a subnet manager on other ports ask nobody here.
pub const ETHERNET: Environment =
    Environment { name: "on an Ethernet port", link: Some(Link::Ethernet), ..AS_IT_COMES };

/// Other places. A new one is one line here.
const PLACES: &[Environment] = &[
    Environment { name: "in a network with only lo", only_lo: true, ..AS_IT_COMES },
    ONE_CPU,
    ETHERNET,
    Environment { name: "on an InfiniBand port", link: Some(Link::InfiniBand), ..AS_IT_COMES },
];

/// Every way bytes can take, the library's choice first.
pub fn ways() -> Vec<Environment> {
    let further = if everything() { FURTHER_WAYS } else { &[] };
    WAYS.iter().chain(further).copied().collect()
}

/// Every environment there is, as it comes first. To say that the best tier is wanted changes nothing.
pub fn environments() -> Vec<Environment> {
    [AS_IT_COMES].into_iter().chain(ways().into_iter().skip(1)).chain(PLACES.iter().copied()).collect()
}

/// An environment made real: what it needs exists as long as this value.
pub struct Place {
    environment: Environment,
    namespace: Option<Namespace>,
    /// What becomes root before it mounts, and the program's user afterwards.
    mounts: Vec<String>,
    user: u32,
    wrappers: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Place {
    /// Prepares it.
    pub fn prepare(environment: Environment) -> Verdict<Self> {
        let namespace = environment.only_lo.then(Namespace::with_only_lo).transpose()?;
        Ok(Self {
            environment,
            namespace,
            mounts: Vec::new(),
            user: ORDINARY_USER,
            wrappers: Vec::new(),
            variables: Vec::new(),
        })
    }

    /// Runs what follows in this network.
    pub fn inside(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// The network it is in, if it has one of its own.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// What becomes of registered memory here, if that is said.
    pub fn pages(&self) -> Option<Pages> {
        self.environment.pages
    }

    /// Runs what follows as this user instead of `nobody`. Needs root.
    pub fn user(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    /// Mounts something first, by a line for the shell, where only the program sees it. Skipped where that is not possible.
    pub fn mounting(mut self, mounts: &str) -> Verdict<Self> {
        let kind = if is_root() { "-m" } else { "-rm" };
        let mut words = [&program("unshare")?.display().to_string(), kind, "--", "/bin/sh", "-c", mounts]
            .map(String::from)
            .to_vec();
        if let Err(why) = succeeds(&words) {
            return skipped(format!("these mounts are not possible here: {why}"));
        }
        words.pop();
        words.extend([format!("{mounts} && exec \"$@\""), "sh".into()]);
        self.mounts = words;
        // Without /proc a program cannot know where it is.
        Ok(self.variable("NONIC_LIB_DIR", &Toolbox::find()?.libraries.display().to_string()))
    }

    /// Puts a wrapper before `nonic run`, inside everything else: `prlimit`, a seccomp filter.
    pub fn wrapped(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.wrappers.extend(words.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for the program.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Tells the program what becomes of the memory it registers here: it then looks, and fails if that is not so.
    pub fn expecting(self, pages: Pages) -> Self {
        let value = if pages == Pages::Adopted { "adopted" } else { "plain" };
        self.variable("EXPECT_PAGES", value)
    }

    /// The same for what the environment itself asks for, where it says so and the tier lets it.
    pub fn expecting_as_asked(self) -> Self {
        match (self.environment.pages, self.environment.tier) {
            (Some(pages), None | Some(Tier("auto" | "mapped"))) => self.expecting(pages),
            _ => self,
        }
    }

    /// `nonic run -- WORDS` in this place.
    pub fn nonic_run(&self, words: impl IntoIterator<Item = impl Into<String>>) -> Verdict<Program> {
        self.nonic_run_with(&[], words)
    }

    /// The same with options before the `--`.
    pub fn nonic_run_with(
        &self,
        options: &[&str],
        words: impl IntoIterator<Item = impl Into<String>>,
    ) -> Verdict<Program> {
        let mut command = vec![Toolbox::find()?.nonic.display().to_string(), "run".into()];
        command.extend(options.iter().map(|option| option.to_string()));
        command.push("--".into());
        command.extend(words.into_iter().map(Into::into));
        self.bare(command)
    }

    /// A command line in this place, without `nonic run`.
    pub fn bare(&self, words: impl IntoIterator<Item = impl Into<String>>) -> Verdict<Program> {
        let mut command = Vec::new();
        if let Some(namespace) = &self.namespace {
            command.extend(namespace.enter()?);
        }
        command.extend(self.mounts.iter().cloned());
        command.extend(step_down(self.user)?);
        if self.environment.one_cpu {
            command.extend([program("taskset")?.display().to_string(), "-c".into(), "0".into()]);
        }
        command.extend(self.wrappers.iter().cloned());
        command.extend(words.into_iter().map(Into::into));
        let mut program = Program::new(command).variable("TMPDIR", scratch().display().to_string());
        if let Some(Tier(tier)) = self.environment.tier {
            program = program.variable("NONIC_TIER", tier);
        }
        if let Some(pages) = self.environment.pages {
            program = program.variable("NONIC_ADOPT", pages.value());
        }
        if let Some(link) = self.environment.link {
            program = program.variable("NONIC_LINK_LAYER", link.value());
        }
        for (name, value) in &self.variables {
            program = program.variable(name, value);
        }
        if self.environment.one_cpu {
            program = program.deadline(Duration::from_secs(240));
        }
        Ok(program)
    }
}

impl Link {
    /// As the variable and the flag spell it.
    pub fn value(self) -> &'static str {
        match self {
            Self::InfiniBand => "infiniband",
            Self::Ethernet => "ethernet",
        }
    }
}
