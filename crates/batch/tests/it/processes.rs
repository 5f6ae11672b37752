//! Two processes with one journal.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use inferstore_batch::{Batch, JournalError, JournalErrorKind, Step};
use inferstore_testing::ScriptedService;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Path of the journal that the other process opens.
const JOURNAL: &str = "INFERSTORE_TEST_JOURNAL";
const OPEN: &str = "the other process has the journal";

fn open(journal: &Path) -> Result<std::result::Result<Batch, JournalError>> {
    Ok(Batch::open(&ScriptedService::new().client()?, journal))
}

#[test]
fn a_journal_belongs_to_one_process_until_that_is_killed() -> Result {
    if let Some(journal) = std::env::var_os(JOURNAL) {
        let batch = open(journal.as_ref())??;
        batch.item("a").failed("by the other process")?;
        writeln!(std::io::stdout(), "\n{OPEN}")?;
        std::io::stdin().read_line(&mut String::new())?;
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("journal.jsonl");
    let mut other = Command::new(std::env::current_exe()?)
        .args(["--exact", "--nocapture", "processes::a_journal_belongs_to_one_process_until_that_is_killed"])
        .env(JOURNAL, &journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(other.stdout.take().ok_or("no output")?);
    let is_open = output.lines().map_while(std::io::Result::ok).any(|line| line == OPEN);
    let refused = open(&journal)?.err().map(|error| error.kind);
    other.kill()?;
    other.wait()?;
    assert!(is_open, "the other process did not open the journal");
    assert_eq!(refused, Some(JournalErrorKind::Locked));
    let step = open(&journal)??.item("a").step()?;
    assert!(matches!(&step, Some(Step::Failed(why)) if why == "by the other process"), "{step:?}");
    Ok(())
}
