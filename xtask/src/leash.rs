//! A program that ends together with everything that it has started: when it is told to, and also when
//! whoever started it is gone.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result};

/// A shell that leads a group of its own. When its standard input ends, the whole group does; meanwhile it
/// becomes the program.
const LEASH: &str = r#"exec 3<&0; { read -r _ <&3; kill -9 -$$; } & exec 3<&-; exec "$@" </dev/null"#;

/// How a program ended.
pub(crate) enum End {
    Itself(ExitStatus),
    /// Time was up.
    Stopped,
}

/// Runs the program, gives everything that it says to `hear` line by line, and ends it when time is up.
/// Nothing that it has started outlives this.
pub(crate) fn run(program: &Command, until: Instant, hear: impl Fn(&str) + Sync) -> Result<End> {
    let mut leashed = Command::new("sh");
    leashed.args(["-c", LEASH, "sh"]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            leashed.env(name, value);
        }
    }
    if let Some(folder) = program.get_current_dir() {
        leashed.current_dir(folder);
    }
    leashed.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = program.get_program().to_string_lossy();
    let mut child = leashed.spawn().with_context(|| format!("cannot run {name}"))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        scope.spawn(|| lines(output, &hear));
        scope.spawn(|| lines(errors, &hear));
        let end = wait(&mut child, until);
        // The group ends, and with it what the two threads read.
        drop(child.stdin.take());
        end
    })
}

fn wait(child: &mut Child, until: Instant) -> Result<End> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(End::Itself(status));
        }
        if Instant::now() > until {
            return Ok(End::Stopped);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn lines(from: Option<impl Read>, hear: &(impl Fn(&str) + Sync)) {
    let Some(from) = from else { return };
    let lines = io::BufRead::split(io::BufReader::new(from), b'\n');
    for line in lines.map_while(Result::ok) {
        hear(&String::from_utf8_lossy(&line));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn what_a_program_started_ends_with_it_when_time_is_up() -> Result<()> {
        let heard = Mutex::new(Vec::new());
        let mut program = Command::new("sh");
        program.args(["-c", "sleep 600 & echo $!; echo trouble >&2; wait"]);
        let hear = |line: &str| {
            if let Ok(mut heard) = heard.lock() {
                heard.push(line.to_owned());
            }
        };
        // Both lines are there long before, or the time would have to be longer.
        let end = run(&program, Instant::now() + Duration::from_secs(2), hear)?;
        assert!(matches!(end, End::Stopped));
        let heard = heard.into_inner()?;
        assert!(heard.contains(&"trouble".to_owned()), "{heard:?}");
        let sleeper =
            heard.iter().find_map(|line| line.parse::<u32>().ok()).context("it tells its number")?;
        // The pipes are closed only when everything in the group has ended.
        let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
        Ok(())
    }

    #[test]
    fn a_program_that_ends_by_itself_says_how() -> Result<()> {
        let mut program = Command::new("sh");
        program.args(["-c", "exit 3"]);
        let end = run(&program, Instant::now() + Duration::from_secs(60), |_| {})?;
        assert!(matches!(end, End::Itself(status) if status.code() == Some(3)));
        Ok(())
    }
}
