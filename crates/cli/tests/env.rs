//! `nonic env`: what it prints, and what becomes of a shell that takes it.

mod support;

use std::path::Path;
use std::process::Command;

use support::{Outcome, nonic, run, scratch, stub_folder, wrapped};

/// A shell that runs this script, with the command as `$NONIC` and its libraries in `folder`.
fn shell(folder: &Path, script: &str) -> Command {
    let mut shell = wrapped(&[], Path::new("sh"));
    shell.args(["-e", "-c", script]).env("NONIC", support::program()).env("NONIC_LIB_DIR", folder);
    shell
}

fn env(folder: &Path, arguments: &[&str]) -> Outcome {
    run(nonic().env("NONIC_LIB_DIR", folder).arg("env").args(arguments))
}

#[test]
fn a_shell_that_takes_it_finds_the_libraries_first_and_the_settings_set() {
    let folder = stub_folder();
    let script =
        "eval \"$($NONIC env --tier ring --node 1)\"; echo $LD_LIBRARY_PATH $NONIC_TIER $NONIC_SCIF_NODE";
    let mut command = shell(&folder, script);
    command.env("LD_LIBRARY_PATH", "/elsewhere:/and/there");
    let expected = format!("{}:/elsewhere:/and/there ring 1\n", folder.display());
    assert_eq!(run(&mut command).exits(0).output, expected);
}

#[test]
fn the_folder_stands_there_once_however_often_it_is_taken() {
    let folder = stub_folder();
    let script = "eval \"$($NONIC env)\"; eval \"$($NONIC env)\"; echo $LD_LIBRARY_PATH";
    assert_eq!(run(&mut shell(&folder, script)).exits(0).output, format!("{}\n", folder.display()));
}

#[test]
fn what_was_taken_is_given_back_and_what_was_there_before_stays() {
    let folder = stub_folder();
    let script = "
        eval \"$($NONIC env --tier ring --noncoherent)\"
        eval \"$($NONIC env --off)\"
        echo ${LD_LIBRARY_PATH-unset} ${DAT_OVERRIDE-unset}
        env | grep -c NONIC_ || true";
    let outcome = run(shell(&folder, script).env("LD_LIBRARY_PATH", "/elsewhere"));
    assert_eq!(outcome.exits(0).output, "/elsewhere unset\n0\n");
    assert_eq!(run(&mut shell(&folder, script)).exits(0).output, "unset unset\n0\n");
}

#[test]
fn a_registry_of_udapl_that_was_chosen_stays_chosen() {
    let folder = stub_folder();
    std::fs::write(folder.join("dat.conf"), "").unwrap();
    let script = "eval \"$($NONIC env)\"; echo $DAT_OVERRIDE; eval \"$($NONIC env --off)\"; echo ${DAT_OVERRIDE-unset}";
    let own = format!("{}/dat.conf\nunset\n", folder.display());
    assert_eq!(run(&mut shell(&folder, script)).exits(0).output, own);
    let chosen = run(shell(&folder, script).env("DAT_OVERRIDE", "/my/dat.conf"));
    assert_eq!(chosen.exits(0).output, "/my/dat.conf\n/my/dat.conf\n");
}

#[test]
fn a_folder_with_quotes_and_blanks_in_its_name_is_one_word() {
    let folder = scratch();
    let folder = folder.join("it's a \"place\" $HOME");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("libibverbs.so.1"), "").unwrap();
    // The loader would take the $ for a token of its own.
    env(&folder, &[]).exits(2).complains_of(&["$", "NONIC_LIB_DIR"]);
    let folder = folder.with_file_name("it's a \"place\"");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("libibverbs.so.1"), "").unwrap();
    let mut command = shell(&folder, "eval \"$($NONIC env)\"; printf %s \"$LD_LIBRARY_PATH\"");
    assert_eq!(run(&mut command).exits(0).output, folder.display().to_string());
}

#[test]
fn a_ci_file_gets_names_and_values() {
    let folder = stub_folder();
    let outcome = env(&folder, &["--github", "--devices", "2", "--view", "off"]).exits(0);
    let folder = folder.display();
    let lines = format!(
        "LD_LIBRARY_PATH={folder}\nLD_PRELOAD={folder}/libibverbs.so.1\nASAN_OPTIONS=verify_asan_link_order=0\n\
         NONIC_VIEW=off\nNONIC_DEVICES=2\n"
    );
    assert_eq!((outcome.output, outcome.errors), (lines, String::new()));
}

#[test]
fn libraries_are_loaded_in_front_once_and_what_was_loaded_before_stays() {
    let folder = stub_folder();
    env(&folder, &[]).exits(0).complains_of(&["libnonic-view.so", "--no-preload"]);
    let library = folder.join("libnonic-view.so");
    std::fs::write(&library, "").unwrap();
    let told = |before: &str, arguments: &[&str]| {
        let mut command = nonic();
        command.env("NONIC_LIB_DIR", &*folder).env("LD_PRELOAD", before).arg("env").args(arguments);
        let outcome = run(&mut command).exits(0);
        outcome.output.lines().find(|line| line.contains("LD_PRELOAD")).map(str::to_owned)
    };
    let verbs = folder.join("libibverbs.so.1").display().to_string();
    let (alone, own) = (format!("/usr/lib/none.so:{verbs}"), format!("{}:{verbs}", library.display()));
    let all = format!("{}:/usr/lib/none.so:{verbs}", library.display());
    let export = |value: &str| Some(format!("export LD_PRELOAD='{value}'"));
    assert_eq!(told("/usr/lib/none.so", &[]), export(&all));
    assert_eq!(told(&all, &[]), export(&all));
    assert_eq!(told(&all, &["--off"]), export("/usr/lib/none.so"));
    assert_eq!(told(&all, &["--no-preload"]), export("/usr/lib/none.so"));
    assert_eq!(told(&all, &["--view", "off"]), export(&alone));
    assert_eq!(told(&own, &["--off"]), Some("unset LD_PRELOAD".to_owned()));
    assert_eq!(told("/usr/lib/none.so", &["--off"]), None);
}

#[test]
fn the_library_for_sockets_is_loaded_in_front_when_asked_for_and_stays_until_all_is_taken_back() {
    let folder = stub_folder();
    let refused = env(&folder, &["--sockets"]).exits(2).complains_of(&["libnonic-sockets.so", "--sockets"]);
    assert_eq!(refused.output, "");
    let [sockets, view] = ["libnonic-sockets.so", "libnonic-view.so"].map(|name| folder.join(name));
    for library in [&sockets, &view] {
        std::fs::write(library, "").unwrap();
    }
    let script = "
        eval \"$($NONIC env --sockets)\"; echo \"$LD_PRELOAD $ASAN_OPTIONS\"
        eval \"$($NONIC env --sockets)\"; echo \"$LD_PRELOAD\"
        eval \"$($NONIC env --view off)\"; echo \"$LD_PRELOAD $ASAN_OPTIONS\"
        eval \"$($NONIC env --no-preload)\"; echo \"$LD_PRELOAD $ASAN_OPTIONS\"
        export NONIC_SOCKETS=connect
        eval \"$($NONIC env --off)\"; echo \"${LD_PRELOAD-unset} $ASAN_OPTIONS ${NONIC_SOCKETS-unset}\"";
    let mut command = shell(&folder, script);
    // The shell's own children say of the stubs that they cannot be loaded.
    let outcome = run(command.env("LD_PRELOAD", "libc.so.6").env("ASAN_OPTIONS", "a=1")).exits(0);
    let (sockets, view) = (sockets.display(), view.display());
    let verbs = format!(":{}", folder.join("libibverbs.so.1").display());
    let loose = "a=1:verify_asan_link_order=0";
    let expected = format!(
        "{view}:{sockets}:libc.so.6{verbs} {loose}\n{view}:{sockets}:libc.so.6{verbs}\n{sockets}:libc.so.6{verbs} {loose}\n{sockets}:libc.so.6 {loose}\n\
         libc.so.6 a=1 unset\n"
    );
    assert_eq!(outcome.output, expected);
    let mut alone = shell(
        &folder,
        "eval \"$($NONIC env --sockets)\"; eval \"$($NONIC env --off)\"; echo ${LD_PRELOAD-unset}",
    );
    assert_eq!(run(&mut alone).exits(0).output, "unset\n");
    let github = env(&folder, &["--github", "--sockets", "--view", "off"]).exits(0).output;
    assert!(github.contains(&format!("LD_PRELOAD={sockets}{verbs}\n")), "{github}");
}

#[test]
fn what_makes_no_sense_is_bad_usage_and_prints_no_line() {
    let folder = stub_folder();
    for (arguments, word) in [
        (&["--github", "--off"][..], "--off"),
        (&["--sockets", "--off"], "--off"),
        (&["--github", "--shell", "fish"], "--shell"),
        (&["--shell", "cmd"], "cmd"),
        (&["--tier", "fast"], "fast"),
    ] {
        let outcome = env(&folder, arguments).exits(2).complains_of(&[word]);
        assert_eq!(outcome.output, "");
    }
    let nowhere = env(Path::new("/nowhere"), &[]).exits(2).complains_of(&["/nowhere"]);
    assert_eq!(nowhere.output, "");
}
