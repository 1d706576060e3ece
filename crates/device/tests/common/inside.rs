//! Tests in a network namespace of their own, where ports and addresses are free.

use std::process::Command;

/// Set where the namespace is.
const INSIDE: &str = "NONIC_TEST_INSIDE";

/// Runs a test once more in a namespace with only `lo`; whether this is there.
pub(crate) fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let script = "ip link set lo up && exec \"$0\" \"$@\"";
    let run = Command::new("unshare")
        .args(["-rn", "--", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output();
    match run {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let refused = ["unshare failed", "not found", "Operation not permitted"];
            assert!(refused.iter().any(|word| text.contains(word)), "{text}");
        }
        Err(error) => println!("no namespace can be made here: {error}"),
    }
    false
}
