//! The environment of the command: streams, variables, terminal. A test passes its own and needs no other process.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

/// The environment of the command.
pub struct Environment {
    /// The variables of the environment.
    pub variables: BTreeMap<String, String>,
    /// The working folder, from which relative paths begin.
    pub folder: PathBuf,
    /// Standard input.
    pub stdin: Box<dyn Read + Send + Sync>,
    /// Standard output.
    pub stdout: Box<dyn Write + Send + Sync>,
    /// Standard error.
    pub stderr: Box<dyn Write + Send + Sync>,
    /// Standard input is a terminal.
    pub stdin_is_terminal: bool,
    /// Standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Standard error is a terminal.
    pub stderr_is_terminal: bool,
    /// Width of the terminal in characters.
    pub width: usize,
}

impl Environment {
    /// Returns the environment of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let (_, columns) = console::Term::stdout().size_checked().unwrap_or((24, 100));
        Self {
            // Variables that are no text are none of ours.
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            folder: PathBuf::new(),
            stdin: Box::new(std::io::stdin()),
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
            stdin_is_terminal: std::io::stdin().is_terminal(),
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            width: usize::from(columns),
        }
    }

    /// Returns true if a variable is set to nothing.
    pub(crate) fn is_empty_variable(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|value| value.trim().is_empty())
    }

    /// A variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Variables hold keys.
        f.debug_struct("Environment").field("width", &self.width).finish_non_exhaustive()
    }
}
