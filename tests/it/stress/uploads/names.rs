//! Path traversal: names and folders that resemble paths. Each is rejected, or is an ordinary name.

use serde_json::json;

use super::super::{Intensity, tell};
use super::bench::{Bench, MAX_FORM_FILE};

const PIECES: [&str; 38] = [
    "..",
    ".",
    "/",
    "\\",
    "%2e%2e",
    "%2F",
    "%252e",
    "%5c",
    "\0",
    "%00",
    "\n",
    "\r\n",
    "\t",
    "\u{7f}",
    "\u{85}",
    "\u{202e}",
    "\u{2215}",
    "\u{ff0e}\u{ff0e}\u{ff0f}",
    "e\u{301}",
    "\u{e9}",
    "\u{feff}",
    "\u{1f469}\u{200d}\u{1f680}",
    "~",
    "$HOME",
    "${filename}",
    "`id`",
    "; rm -rf",
    "'",
    "\"",
    "<b>",
    "&amp;",
    "?x=1",
    "#",
    "+",
    " ",
    "CON",
    "a",
    ".png",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_refused_or_is_stored_as_it_is_and_never_becomes_a_path() {
    let intensity = Intensity::of_this_run();
    let mut random = intensity.random();
    let bench = Bench::start().await;
    let before = bench.on_disk("");
    let (mut stored, mut refused) = (0, 0);
    for round in 0..intensity.times(40, 1_500) {
        let name: String = match round {
            0 => String::new(),
            1 => "x".repeat(1_024 - "samples/".len()),
            2 => "x".repeat(1_025 - "samples/".len()),
            3 => "\u{fc}".repeat(1_000_000),
            _ => (0..random.usize(1..6)).map(|_| PIECES[random.usize(..PIECES.len())]).collect(),
        };
        let order = json!({"folder": "samples", "mime": "text/plain", "name": name, "size": 5});
        let answer = bench.ask(&order).await;
        let bad = name.is_empty()
            || matches!(&*name, "." | "..")
            || name.contains('/')
            || name.chars().any(char::is_control)
            || name.len() > 1_024 - "samples/".len();
        let shown: String = name.chars().take(60).collect();
        if bad {
            assert!(matches!(answer.status, 413 | 422), "{shown:?}: {answer:?}");
            refused += 1;
            continue;
        }
        let target = super::Target::read(answer.data());
        let reply = target.upload(b"12345".to_vec()).send().await.expect("an answer");
        assert_eq!(reply.status, 204, "{shown:?}: {reply:?}");
        bench.holds(Some((&target.download_url, b"12345")), &shown).await;
        let page = bench.owner.get("/api-key/storage/upload/samples").await;
        assert_eq!(page.data()["files"][0]["key"], format!("samples/{name}"));
        bench.delete(&target.download_url).await;
        bench.holds(None, &shown).await;
        assert_eq!(bench.download(&target.download_url).await, None, "{shown:?}");
        stored += 1;
    }
    let outside = |files: Vec<std::path::PathBuf>| -> Vec<_> {
        files.into_iter().filter(|file| !file.ends_with("inferstore.db-wal")).collect()
    };
    assert_eq!(outside(bench.on_disk("")), outside(before), "a file lies where none belongs");
    assert!(stored > 5 && refused > 5, "{stored} stored, {refused} refused");
    tell(&format!("{refused} names refused, {stored} stored as they are"));
}

#[tokio::test]
async fn only_the_five_folders_and_sizes_within_the_limits_are_given_a_target() {
    let bench = Bench::start().await;
    let order = |member: &str, value: serde_json::Value| {
        let mut order = json!({"folder": "samples", "mime": "text/plain", "name": "a.txt", "size": 5});
        order[member] = value;
        order
    };
    for folder in [
        "",
        ".",
        "..",
        "samples/",
        "/samples",
        "Samples",
        "samples\0",
        "samples/../avatars",
        "outputs",
        "statistics",
    ] {
        bench.ask(&order("folder", json!(folder))).await.refusal(422);
    }
    for size in [
        json!(0),
        json!(-1),
        json!(104_857_601),
        json!(1.5),
        json!("5"),
        json!(null),
        json!(1e300),
        json!(u64::MAX),
    ] {
        bench.ask(&order("size", size)).await.refusal(422);
    }
    for mime in
        ["", "text", "text/plain\r\nx-amz-acl: public-read", "text/plain\0", "text/\u{fc}", &"x/".repeat(200)]
    {
        bench.ask(&order("mime", json!(mime))).await.refusal(422);
    }
    for size in [1, MAX_FORM_FILE, MAX_FORM_FILE + 1, 104_857_600] {
        bench.ask(&order("size", json!(size))).await.data();
    }
    bench.holds(None, "orders alone").await;
}
