//! `nonic completions`: the shells take what it prints.

mod support;

use std::process::Command;

use support::{nonic, run, works, wrapped};

/// What bash offers for a line that is cut where the person presses the tabulator, with the cursor on its last word.
fn bash_offers(words: &[&str]) -> Vec<String> {
    let script = "
        eval \"$($NONIC completions bash)\"
        COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1))
        _nonic nonic \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"
        [ $(complete -p nonic | wc -l) = 1 ]
        printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash: Command = wrapped(&[], "bash".as_ref());
    bash.args(["--norc", "-eu", "-c", script, "bash"]).args(words).env("NONIC", support::program());
    run(&mut bash).exits(0).output.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_choices_and_none_that_is_hidden() {
    assert_eq!(bash_offers(&["nonic", "r"]), ["run"]);
    assert_eq!(bash_offers(&["nonic", "run", "--link"]), ["--link-layer"]);
    assert_eq!(bash_offers(&["nonic", "run", "--link-layer", ""]), ["infiniband", "ethernet"]);
    let commands = bash_offers(&["nonic", ""]);
    assert!(commands.iter().any(|word| word == "bench-scale"), "{commands:?}");
    assert!(!commands.iter().any(|word| word.contains("peer")), "{commands:?}");
}

#[test]
fn each_shell_that_is_installed_reads_its_file_without_complaint() {
    for (shell, check) in [("bash", "bash -n"), ("zsh", "zsh -n"), ("fish", "fish --no-execute")] {
        let text = run(nonic().args(["completions", shell])).exits(0).output;
        assert!(text.contains("bench-scale") && !text.contains("demo-peer"), "{text}");
        if works(&["sh", "-c", &format!("command -v {shell}")]) {
            let folder = support::scratch();
            let file = support::file(&folder, "completions", text.as_bytes(), 0o644);
            let words: Vec<&str> = check.split(' ').collect();
            assert_eq!(run(&mut wrapped(&words, &file)).exits(0).errors, "");
        }
    }
    run(nonic().args(["completions", "cmd"])).exits(2).complains_of(&["cmd"]);
}
