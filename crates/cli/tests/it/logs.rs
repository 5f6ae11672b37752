//! `task logs`.

use std::sync::atomic::{AtomicUsize, Ordering};

use inferstore_cli::exit;
use serde_json::json;

use crate::support::{Cli, answering};

#[test]
fn a_log_is_printed_as_it_grows_and_without_control_characters() {
    // Text, offset and attempt of each read. The third is of another node, which begins again.
    let logs = [("one\n\u{1b}[2Jtwo", 0, 1), ("four\n", 20, 1), ("again, and longer than before\n", 0, 2)];
    let reads = AtomicUsize::new(0);
    let origin = answering(move |request| {
        if request.contains("/logs") {
            let (text, offset, attempt) = logs[reads.fetch_add(1, Ordering::Relaxed).min(2)];
            return json!({"text": text, "offset": offset, "attempt": attempt});
        }
        let status = if reads.load(Ordering::Relaxed) < 2 { "computing" } else { "success" };
        json!({"task_id": "t-1", "status": status, "result": {"result": null}})
    });
    let cli = Cli::new();
    let call = |words: &str| cli.call(&format!("{words} --base-url {origin}/api/v1 --api-key k"));
    let followed = call("task logs t-1 --follow");
    assert_eq!(
        (followed.code, &*followed.stdout),
        (exit::DONE, "one\n\u{fffd}[2Jtwofour\nagain, and longer than before\n")
    );
    assert!(followed.stderr.contains("9 bytes of the log are not kept"), "{followed}");
    let once = call("task logs t-1 --json=text,offset");
    assert!(once.stdout.contains("\"text\":\"again, and"), "{once}");
}

#[test]
fn a_log_that_was_read_within_a_character_is_not_printed_again() {
    // The end of what was read first is the second byte of the last character of the second text.
    let reads = AtomicUsize::new(0);
    let origin = answering(move |request| {
        if request.contains("/logs") {
            let text = ["one \u{e9}", "one\n\u{1f600}"][reads.fetch_add(1, Ordering::Relaxed).min(1)];
            return json!({"text": text, "offset": 0, "attempt": 1});
        }
        let status = if reads.load(Ordering::Relaxed) < 1 { "computing" } else { "success" };
        json!({"task_id": "t-1", "status": status, "result": {"result": null}})
    });
    let call = format!("task logs t-1 --follow --base-url {origin}/api/v1 --api-key k");
    let followed = Cli::new().call(&call);
    assert_eq!((followed.code, &*followed.stdout), (exit::DONE, "one \u{e9}\u{1f600}"));
}
