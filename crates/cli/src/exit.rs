//! The exit codes of the command. They are a promise to scripts, like the names of its arguments.

macro_rules! codes {
    ($($code:literal $name:ident $meaning:literal,)*) => {
        $(#[doc = concat!("Exit code: ", $meaning, ".")] pub const $name: u8 = $code;)*

        /// All codes with what they mean, in order: for the help and the reference.
        pub const ALL: &[(u8, &str)] = &[$(($name, $meaning)),*];
    };
}

codes! {
    0 DONE "done",
    1 FAILED "anything else",
    2 USAGE "the command line or a setting is wrong",
    3 KEY "the API key is missing or was refused",
    4 INPUT "an input, a name or a limit of yours was refused; nothing was created",
    5 REFUSED "the service refused",
    6 TASK_FAILED "the task failed; it is not billed",
    7 TASK_CANCELED "the task was canceled; it is not billed",
    8 DEADLINE "the deadline was reached; the task is on standard output",
    9 OUTCOME_UNKNOWN "whether a task was created is unknown; the candidates are on standard output",
    10 NOT_REACHED "the service was not reached",
    11 DETACHED "the run was interrupted and its task goes on; the task is on standard output",
}

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
