//! `nonic completions`: what a shell needs to complete the words of this command.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Print the file by which a shell completes the words of nonic
///
/// Packages install it. By hand: eval "$(nonic completions bash)".
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArguments {
    /// The shell that reads it
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  eval \"$(nonic completions bash)\"
  nonic completions zsh > ~/.zfunc/_nonic
  nonic completions fish > ~/.config/fish/completions/nonic.fish

Exit status:
  0  the file is printed
  2  bad usage";

/// Prints the file.
pub(crate) fn main(arguments: &CompletionsArguments) -> ExitCode {
    let mut text = Vec::new();
    generate(arguments.shell, &mut visible(&crate::definition()), "nonic", &mut text);
    // Whoever closed the pipe has read enough.
    let _ = std::io::stdout().write_all(&text);
    ExitCode::SUCCESS
}

/// The definition without the commands that processes of nonic start each other by.
fn visible(definition: &Command) -> Command {
    let commands = definition.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("nonic").version(env!("CARGO_PKG_VERSION")).subcommands(commands.cloned())
}
