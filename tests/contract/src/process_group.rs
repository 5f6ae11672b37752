//! Program in a process group of its own. The group is killed on a timeout, and when this process ends.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result};

/// Shell that leads the group and becomes the program. A background process kills the group at the end of
/// standard input, which also comes when this process ends.
const LEADER: &str = r#"exec 3<&0; { read -r _ <&3; kill -9 -$$; } & exec 3<&-; exec "$@" </dev/null"#;

/// End of a program.
pub enum End {
    /// Exit by itself.
    Exited(ExitStatus),
    /// Killed on timeout.
    TimedOut,
}

/// Runs the program, passes its lines to `on_line`, and kills its group at `until`; no process outlives this call.
pub fn run(program: &Command, until: Instant, on_line: impl Fn(&str) + Sync) -> Result<End> {
    let mut command = Command::new("sh");
    command.args(["-c", LEADER, "sh"]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = program.get_program().to_string_lossy();
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        scope.spawn(|| lines(output, &on_line));
        scope.spawn(|| lines(errors, &on_line));
        let end = wait(&mut child, until);
        // Ends the group, and thereby the input of both reader threads.
        drop(child.stdin.take());
        end
    })
}

fn wait(child: &mut Child, until: Instant) -> Result<End> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(End::Exited(status));
        }
        if Instant::now() > until {
            return Ok(End::TimedOut);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn lines(from: Option<impl Read>, on_line: &(impl Fn(&str) + Sync)) {
    let Some(from) = from else { return };
    let lines = io::BufRead::split(io::BufReader::new(from), b'\n');
    for line in lines.map_while(Result::ok) {
        on_line(&String::from_utf8_lossy(&line));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_timeout_kills_every_process_of_the_group() -> Result<()> {
        let seen = Mutex::new(Vec::new());
        let mut program = Command::new("sh");
        program.args(["-c", "sleep 600 & echo $!; echo failed >&2; wait"]);
        let on_line = |line: &str| {
            if let Ok(mut seen) = seen.lock() {
                seen.push(line.to_owned());
            }
        };
        let end = run(&program, Instant::now() + Duration::from_secs(2), on_line)?;
        assert!(matches!(end, End::TimedOut));
        let seen = seen.into_inner()?;
        assert!(seen.contains(&"failed".to_owned()), "{seen:?}");
        let sleeper =
            seen.iter().find_map(|line| line.parse::<u32>().ok()).context("it prints its number")?;
        let deadline = Instant::now() + Duration::from_mins(1);
        while let Some(state) = running(sleeper) {
            assert!(Instant::now() < deadline, "{state}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns the state of a process that has not ended. A killed process closes its pipes a moment before.
    fn running(process: u32) -> Option<String> {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        (!state.contains(") Z ")).then_some(state)
    }

    #[test]
    fn a_program_has_set_variables_and_not_removed_ones() -> Result<()> {
        let mut program = Command::new("sh");
        program.args(["-c", r#"test "$GIVEN" = 1 && test -z "${CARGO_MANIFEST_DIR-}""#]);
        program.env("GIVEN", "1").env_remove("CARGO_MANIFEST_DIR");
        let end = run(&program, Instant::now() + Duration::from_mins(1), |_| {})?;
        assert!(matches!(end, End::Exited(status) if status.success()));
        Ok(())
    }

    #[test]
    fn the_exit_code_of_a_program_is_returned() -> Result<()> {
        let mut program = Command::new("sh");
        program.args(["-c", "exit 3"]);
        let end = run(&program, Instant::now() + Duration::from_mins(1), |_| {})?;
        assert!(matches!(end, End::Exited(status) if status.code() == Some(3)));
        Ok(())
    }
}
