//! Prompts for secrets on the terminal.

#[cfg(not(unix))]
pub(crate) use rpassword::prompt_password as prompt_secret;

/// Asks for a secret without showing it. Ctrl-C ends the process, then and later, and leaves a terminal that shows what
/// is typed.
#[cfg(unix)]
pub(crate) fn prompt_secret(question: &str) -> std::io::Result<String> {
    use tokio::signal::unix::{SignalKind, signal};

    /// Status of a process that Ctrl-C has ended, as shells report it.
    const INTERRUPTED: i32 = 130;

    // Without a receiver, the signal would end the process before the prompt restores the terminal.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let secret = rpassword::prompt_password(question);
    if secret.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {
        std::process::exit(INTERRUPTED);
    }
    tokio::spawn(async move {
        interrupts.recv().await;
        std::process::exit(INTERRUPTED)
    });
    secret
}
