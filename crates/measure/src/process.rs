//! Run time and peak memory of a process. Needs Linux, which records the peak (`VmHWM`).

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval of the peak memory. The peak only grows, so the last poll counts.
const LOOK: Duration = Duration::from_millis(1);

/// Resources that a process used.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Time from start to exit.
    pub time: Duration,
    /// Peak memory in MiB.
    pub peak: f64,
}

/// Returns the peak memory of a running process in MiB.
pub fn peak(process: u32) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| io::Error::other("the system does not tell VmHWM"))
}

/// Returns the seconds of processor time that a running process has taken.
pub fn processor_time(process: u32) -> io::Result<f64> {
    /// The unit of the counters, on every Linux.
    const TICKS_PER_SECOND: f64 = 100.0;
    let line = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field, a name in parentheses, may have spaces.
    let fields = line.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    let [user, system] = ticks[..] else {
        return Err(io::Error::other("the system does not tell the times of a process"));
    };
    Ok((user + system) / TICKS_PER_SECOND)
}

/// Returns the processor time of all threads of this process, more precise than the hundredths of [`processor_time`].
pub fn own_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Runs a program until it exits; the error of a failed program has its standard error.
pub fn spent(command: &mut Command) -> io::Result<Spent> {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut most: f64 = 0.0;
    loop {
        // The process may be exiting.
        most = most.max(peak(child.id()).unwrap_or(0.0));
        if let Some(status) = child.try_wait()? {
            let time = begun.elapsed();
            if status.success() {
                return Ok(Spent { time, peak: most });
            }
            let said = child.wait_with_output()?.stderr;
            let program = command.get_program().to_string_lossy().into_owned();
            return Err(io::Error::other(format!("{program} failed: {}", String::from_utf8_lossy(&said))));
        }
        thread::sleep(LOOK);
    }
}
