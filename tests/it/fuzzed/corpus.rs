//! Committed corpus, by target: the initial entries, and valuable ones that fuzzing found.

use std::fs;
use std::path::Path;

pub(super) fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut kept: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_default(), fs::read(&path).expect("an entry can be read"))
        })
        .collect();
    kept.sort();
    kept
}
