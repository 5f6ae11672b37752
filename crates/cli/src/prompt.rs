//! Prompts for secrets on the terminal.

use std::io;

/// Asks for a secret without showing it.
#[cfg(not(unix))]
pub(crate) async fn prompt_secret(question: &str) -> io::Result<String> {
    let terminal = console::Term::stderr();
    terminal.write_str(question)?;
    terminal.read_secure_line()
}

/// Asks for a secret without showing it. Ctrl-C ends the process, then and later, and leaves a terminal that shows what
/// is typed.
#[cfg(unix)]
pub(crate) async fn prompt_secret(question: &str) -> io::Result<String> {
    use std::io::{BufRead, BufReader, Write};

    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use tokio::signal::unix::{SignalKind, signal};

    /// Status of a process that Ctrl-C has ended, as shells report it.
    const INTERRUPTED: i32 = 130;

    // Without a receiver, the signal would end the process before the terminal shows again what is typed.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminal = std::fs::File::options().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&terminal, OptionalActions::Now, &hidden)?;
    terminal.write_all(question.as_bytes())?;
    let mut lines = BufReader::new(terminal.try_clone()?);
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        lines.read_line(&mut line).map(|_| line)
    });
    let secret = tokio::select! {
        line = line => Some(line.map_err(io::Error::other).flatten()),
        _ = interrupts.recv() => None,
    };
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    let Some(secret) = secret else {
        let _ = terminal.write_all(b"\n");
        std::process::exit(INTERRUPTED)
    };
    tokio::spawn(async move {
        interrupts.recv().await;
        std::process::exit(INTERRUPTED)
    });
    secret
}
