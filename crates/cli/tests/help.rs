//! Help and manual: complete, and in step with the one definition of every flag.

mod support;

use clap::Command;
use support::{nonic, run};

const COMMANDS: [&str; 7] = ["run", "env", "demo", "bench", "bench-scale", "doctor", "ctl"];

fn help(arguments: &[&str]) -> String {
    run(nonic().args(arguments)).exits(0).output
}

#[test]
fn help_names_every_command_and_no_hidden_one() {
    for flag in ["-h", "--help"] {
        let text = help(&[flag]);
        for command in COMMANDS {
            assert!(text.contains(&format!("\n  {command} ")), "no {command} in {text}");
        }
        assert!(text.contains("\n  completions "), "{text}");
        assert!(!text.contains("peer"), "{text}");
    }
}

#[test]
fn the_help_of_each_command_has_examples_environment_and_exit_status() {
    for command in COMMANDS {
        for text in [help(&[command, "--help"]), help(&["help", command])] {
            for heading in ["Examples:", "Environment", "Exit status:", "NONIC_LIB_DIR"] {
                assert!(text.contains(heading), "no {heading} in the help of {command}:\n{text}");
            }
        }
    }
}

#[test]
fn help_shows_every_flag_with_words_about_it() {
    for command in visible_commands() {
        for argument in command.get_arguments() {
            let name = argument.get_id();
            assert!(argument.get_help().is_some(), "no help for {name} of {}", command.get_name());
        }
    }
}

#[test]
fn no_command_at_all_shows_the_help_and_is_bad_usage() {
    run(&mut nonic()).exits(2).complains_of(&["Usage:", "doctor"]);
    run(nonic().arg("dance")).exits(2).complains_of(&["dance"]);
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(help(&["--version"]), format!("nonic {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_manual_page_has_every_command_every_flag_and_every_choice() {
    let page = manual_page();
    for command in visible_commands() {
        let name = command.get_name();
        assert!(page.contains(&format!(".It Cm {name}")), "no command {name}");
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            let written = [format!(".It Fl -{long}"), format!(", -{long}")];
            assert!(written.iter().any(|form| page.contains(form)), "no --{long} of {name}");
            if !argument.get_action().takes_values() {
                continue; // `--force` has no choices worth naming.
            }
            for choice in argument.get_possible_values().iter().filter(|choice| !choice.is_hide_set()) {
                let choice = choice.get_name();
                assert!(
                    page.contains(&format!("-{long} Cm")) && page.contains(choice),
                    "no {choice} of --{long}"
                );
            }
        }
    }
}

#[test]
fn the_manual_page_has_every_variable_that_help_names() {
    let page = manual_page();
    let text: String = COMMANDS.iter().map(|command| help(&[command, "--help"])).collect();
    let names = text.split(|character: char| !character.is_ascii_uppercase() && character != '_');
    for name in names.filter(|name| name.starts_with("NONIC_") && name.len() > "NONIC_".len()) {
        assert!(page.contains(&format!(".It Ev {name}\n")), "no {name}");
    }
}

#[test]
fn the_manual_page_is_sound_roff() {
    let path = manual_path();
    if !support::works(&["sh", "-c", "command -v groff"]) {
        return support::skip("groff is not installed");
    }
    let mut groff = support::wrapped(&["groff", "-mdoc", "-ww", "-z"], path.as_ref());
    assert_eq!(run(&mut groff).exits(0).errors, "");
}

fn manual_path() -> String {
    format!("{}/../../docs/man/nonic.1", env!("CARGO_MANIFEST_DIR"))
}

fn manual_page() -> String {
    std::fs::read_to_string(manual_path()).expect("the manual page is there")
}

/// The commands a person can see, with the flags that clap adds.
fn visible_commands() -> Vec<Command> {
    let mut definition = nonic_cli::definition();
    definition.build();
    let visible = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    definition.get_subcommands().filter(visible).cloned().collect()
}
