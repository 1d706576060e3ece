//! What another user can do about cookies, which needs root to be made.

use nonic_second_process::{SecondProcess, become_user, role};

use crate::common::{PAGE, Pages};
use crate::sharer::{NOT_AGREED, OTHER_MEMORY, PAGES, cookie, load, share, sharing};

/// Users that nobody is: one with cookies, and one without anything.
const OWN: u32 = 23_462;
const STRANGER: u32 = 23_461;

/// What a process of another user does to a ledger.
#[test]
fn stranger() {
    let Some(user) = role() else { return };
    let path = format!("/dev/shm/nonic-ledger.1.{user}");
    become_user(STRANGER);
    nonic_second_process::serve(|command, _| match command {
        "look" => {
            let opened = std::fs::File::open(&path).is_ok()
                || std::fs::File::options().write(true).open(&path).is_ok()
                || std::fs::remove_file(&path).is_ok();
            format!("{opened}")
        }
        "file" => std::fs::write(&path, "mine").map_or_else(|error| error.to_string(), |()| "ok".into()),
        "link" => std::os::unix::fs::symlink("/dev/shm/nonic-aimed-at", &path)
            .map_or_else(|error| error.to_string(), |()| "ok".into()),
        "folder" => std::fs::create_dir(&path).map_or_else(|error| error.to_string(), |()| "ok".into()),
        "clear" => {
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir(&path);
            "ok".into()
        }
        other => panic!("no such command: {other}"),
    });
}

/// LMR-5: a stranger can neither look nor join nor break, and takes the name only from who has nothing there.
#[test]
fn strangers_see_no_cookies_and_who_takes_the_name_first_costs_a_refusal() {
    if nonic_sys::effective_user() != 0 {
        println!("SKIPPED: cookies of strangers: a process of another user needs root");
        return;
    }
    // As another run may have left it: processes that end with regions leave their ledger behind.
    let _ = std::fs::remove_file(format!("/dev/shm/nonic-ledger.1.{OWN}"));
    let cookie = cookie("strange");
    let files = ["one", "other"].map(|name| {
        let path = format!("/dev/shm/nonic-test-{name}.{}", std::process::id());
        std::fs::write(&path, vec![0; PAGES * PAGE]).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        path
    });
    // A user of its own: other tests of this one have cookies meanwhile.
    let own = |file: usize| {
        let mut process = SecondProcess::start("sharer::serve", &format!("noncoherent {OWN}"), &[]);
        assert_eq!(process.tell(&format!("map {} {PAGES}", files[file])), "ok");
        process
    };
    let mut stranger = SecondProcess::start("strangers::stranger", &OWN.to_string(), &[]);
    let mut first = own(0);
    for what in ["file", "link", "folder"] {
        assert_eq!(stranger.tell(what), "ok");
        assert_eq!(share(&mut first, cookie).unwrap_err(), NOT_AGREED, "{what}");
        assert_eq!(load(&mut first, 0), 0);
        let why = first.tell("why");
        assert!(why.contains(&format!("nonic-ledger.1.{OWN}")), "{why}");
        assert!(why.contains(&format!("user {STRANGER} has taken that name")), "{why}");
        assert!(!std::fs::exists("/dev/shm/nonic-aimed-at").unwrap());
        assert_eq!(stranger.tell("clear"), "ok");
    }
    share(&mut first, cookie).unwrap();
    assert_eq!(stranger.tell("look"), "false");
    for what in ["file", "link", "folder"] {
        assert_ne!(stranger.tell(what), "ok");
    }
    assert_eq!(stranger.tell("clear"), "ok");
    // It is as it was: another process of the user finds the cookie in use.
    let mut second = own(1);
    assert_eq!(share(&mut second, cookie).unwrap_err(), OTHER_MEMORY);
    assert_eq!(second.tell(&format!("map {} {PAGES}", files[0])), "ok");
    share(&mut second, cookie).unwrap();
    // Other users' cookies are their own.
    let (_root, _) = sharing(true, Pages::file(PAGES), cookie);
    assert_eq!(first.tell("store 9 1"), "ok");
    assert_eq!(second.tell("collect 0 64"), "ok");
    first.finish();
    second.finish();
    files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
}
