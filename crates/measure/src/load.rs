//! Load: a fixed number of connections, each of which asks again as soon as it is answered.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::Connection;

/// What came of a load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How much of the work was done in a second.
    pub per_second: f64,
    /// How long half of it took at most, in milliseconds.
    pub p50: f64,
    /// How long all but one in a hundred took at most, in milliseconds.
    pub p99: f64,
}

/// A piece of work on a connection: one request, or several that belong together.
pub type Step<'a> = Box<dyn FnMut(&mut Connection) -> io::Result<()> + Send + 'a>;

/// Does the work over and over on so many connections for so long. `step` makes what each connection
/// does.
///
/// # Errors
/// When any of it fails.
pub fn load<'a>(
    origin: &str,
    connections: usize,
    during: Duration,
    step: impl Fn(usize) -> Step<'a>,
) -> io::Result<Load> {
    let mut workers = Vec::new();
    for number in 0..connections {
        workers.push((Connection::open(origin)?, step(number)));
    }
    let begun = Instant::now();
    let taken: io::Result<Vec<Vec<Duration>>> = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|(mut connection, mut step)| {
                scope.spawn(move || {
                    let mut taken = Vec::new();
                    while begun.elapsed() < during {
                        let asked = Instant::now();
                        step(&mut connection)?;
                        taken.push(asked.elapsed());
                    }
                    Ok(taken)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a connection of the load panicked")))
        });
        joined.collect()
    });
    let elapsed = begun.elapsed().as_secs_f64();
    let mut taken = taken?.concat();
    taken.sort();
    let at = |share: usize| {
        taken.get(taken.len() * share / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
    };
    Ok(Load {
        per_second: f64::from(u32::try_from(taken.len()).unwrap_or(u32::MAX)) / elapsed,
        p50: at(50),
        p99: at(99),
    })
}
