//! Load over HTTP: closed loop (throughput) and open loop (latency at a constant rate).

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Connection;

/// Unit of work on a connection: one request, or several that belong together.
pub type Step<'a> = Box<dyn FnMut(&mut Connection) -> io::Result<()> + Send + 'a>;

/// Latency percentiles under a load, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Latencies {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// Closed loop: repeats on each connection the work that `step` makes, and returns the steps per second.
pub fn throughput<'a>(
    origin: &str,
    connections: usize,
    during: Duration,
    step: impl Fn(usize) -> Step<'a>,
) -> io::Result<f64> {
    let begun = Instant::now();
    let done = on_all(origin, connections, step, |connection, step| {
        let mut done = 0_u32;
        while begun.elapsed() < during {
            step(connection)?;
            done += 1;
        }
        Ok(done)
    })?;
    Ok(f64::from(done.iter().sum::<u32>()) / begun.elapsed().as_secs_f64())
}

/// Open loop: work is due at a constant rate, whether or not earlier work has ended. Due work waits for a
/// free connection, and its latency counts from its due time, so a pause of the server delays all work due
/// meanwhile (no coordinated omission).
pub fn latencies<'a>(
    origin: &str,
    connections: usize,
    per_second: f64,
    during: Duration,
    step: impl Fn(usize) -> Step<'a>,
) -> io::Result<Latencies> {
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let taken = on_all(origin, connections, step, |connection, step| {
        let mut taken = Vec::new();
        loop {
            let number = u32::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(u32::MAX);
            let due = Duration::from_secs_f64(f64::from(number) / per_second);
            if due >= during {
                return Ok(taken);
            }
            thread::sleep(due.saturating_sub(begun.elapsed()));
            step(connection)?;
            taken.push(begun.elapsed() - due);
        }
    })?;
    let mut taken = taken.concat();
    taken.sort();
    let at = |thousandths: usize| {
        let place = (taken.len() * thousandths / 1_000).min(taken.len().saturating_sub(1));
        taken.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
    };
    Ok(Latencies { p50: at(500), p99: at(990), p999: at(999) })
}

fn on_all<'a, T: Send>(
    origin: &str,
    connections: usize,
    step: impl Fn(usize) -> Step<'a>,
    work: impl Fn(&mut Connection, &mut Step<'a>) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let mut workers = Vec::new();
    for number in 0..connections {
        workers.push((Connection::open(origin)?, step(number)));
    }
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|(mut connection, mut step)| {
                let work = &work;
                scope.spawn(move || work(&mut connection, &mut step))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a connection of the load panicked")))
        });
        joined.collect()
    })
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by panicking")]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_pause_of_the_server_counts_for_all_that_was_due_in_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
        let mut steps = 0;
        let step = move || -> Step<'_> {
            Box::new(move |_| {
                steps += 1;
                // The first step takes as long as all 20 were planned to.
                thread::sleep(Duration::from_millis(if steps == 1 { 200 } else { 0 }));
                Ok(())
            })
        };
        let measured = latencies(&origin, 1, 100.0, Duration::from_millis(200), |_| step());
        let Latencies { p50, p99, .. } = measured.expect("nothing fails");
        assert!(p50 > 50.0 && p99 >= 200.0, "{p50} {p99}");
    }
}
