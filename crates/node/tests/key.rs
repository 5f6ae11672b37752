//! Key of `inferstore-node`.

use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

fn refusal(key: Option<&OsStr>) -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("node.json");
    std::fs::write(&file, r#"{"service": "http://127.0.0.1:1", "models": {"a": {"command": ["sh"]}}}"#)?;
    let mut program = Command::new(env!("CARGO_BIN_EXE_inferstore-node"));
    program.arg(file).env_remove("INFERSTORE_NODE_KEY");
    program.envs(key.map(|key| ("INFERSTORE_NODE_KEY", key)));
    let ended = program.output()?;
    assert_eq!(ended.status.code(), Some(1));
    Ok(String::from_utf8(ended.stderr)?)
}

#[test]
fn a_key_that_cannot_be_read_is_not_printed() -> Result<(), Box<dyn Error>> {
    let printed = refusal(Some(OsStr::from_bytes(b"secret\xff")))?;
    assert!(printed.contains("reading INFERSTORE_NODE_KEY failed: its value is not UTF-8"), "{printed}");
    assert!(!printed.contains("secret"), "{printed}");
    let printed = refusal(None)?;
    assert!(printed.contains("reading INFERSTORE_NODE_KEY failed: it is not set"), "{printed}");
    Ok(())
}
