//! The exit codes of the command. They are a promise to scripts, like the names of its arguments.

/// Success.
pub const DONE: u8 = 0;
/// Anything that has no code of its own.
pub const FAILED: u8 = 1;
/// The command line, or a setting that it needs, is wrong. Nothing was sent.
pub const USAGE: u8 = 2;
/// The API key is missing, or the service refused it.
pub const KEY: u8 = 3;
/// An input, a file or a limit of yours forbids it. Nothing was created.
pub const INPUT: u8 = 4;
/// The service responded with a failure.
pub const REFUSED: u8 = 5;
/// The task ended in `failed`.
pub const TASK_FAILED: u8 = 6;
/// The task ended in `canceled`.
pub const TASK_CANCELED: u8 = 7;
/// The deadline was reached. The task, if there is one, is printed on standard output.
pub const DEADLINE: u8 = 8;
/// Unknown outcome of a create: a task may exist. The candidates are printed on standard output.
pub const OUTCOME_UNKNOWN: u8 = 9;
/// The service did not respond.
pub const NOT_REACHED: u8 = 10;
/// A run was interrupted after its task was created. The task goes on; it is printed on standard output.
pub const DETACHED: u8 = 11;

/// All codes with what they mean, in order: for the help and the reference.
pub const ALL: [(u8, &str); 12] = [
    (DONE, "done"),
    (FAILED, "anything else"),
    (USAGE, "the command line or a setting is wrong"),
    (KEY, "the API key is missing or was refused"),
    (INPUT, "an input, a name or a limit of yours was refused; nothing was created"),
    (REFUSED, "the service refused"),
    (TASK_FAILED, "the task failed; it is not billed"),
    (TASK_CANCELED, "the task was canceled; it is not billed"),
    (DEADLINE, "the deadline was reached; the task is on standard output"),
    (OUTCOME_UNKNOWN, "whether a task was created is unknown; the candidates are on standard output"),
    (NOT_REACHED, "the service was not reached"),
    (DETACHED, "the run was interrupted and its task goes on; the task is on standard output"),
];

/// The codes as lines of help.
#[must_use]
pub fn help() -> String {
    ALL.iter().map(|(code, meaning)| format!("  {code:>2}  {meaning}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_code_is_listed_once_and_in_order() {
        assert!(ALL.iter().enumerate().all(|(place, (code, _))| place == usize::from(*code)));
    }
}
