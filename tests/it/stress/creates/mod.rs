//! A task is created at most once, wherever its create fails: counted in the store of the service.

mod keys;
mod points;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use inferstore::{Client, Error};
use inferstore_api::operations;
use inferstore_service::{Controls, Fault, Script, Service};
use points::{Point, Problem, TaskDisposition, points};

use super::stored::{image, stored};
use super::{Intensity, tell};
use crate::client::on_the_service::{MODEL, WithoutKeys, audited, start};
use crate::client::{Quickly, built, inputs, quick, quick_retry};
use inferstore_wire::{Break, Cable};

const SIDE_BY_SIDE: usize = 10;

struct Bench {
    service: Service,
    controls: Controls,
    /// Not affected by faults, because it reads after they are cleared.
    auditor: Client,
}

impl Bench {
    async fn start() -> Self {
        let (service, controls, auditor) = start().await;
        Self { service, controls, auditor }
    }

    fn address(&self) -> SocketAddr {
        let url = self.service.base_url();
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/api/v1"));
        address.and_then(|address| address.parse().ok()).expect("it listens on an address")
    }

    /// Makes a client for one create, so that its first connection carries that create.
    fn client_over(&self, cable: &Cable, read_timeout: Duration, keys: Keys) -> Client {
        let mut retry = quick_retry();
        if keys == Keys::Known {
            // Enough that half of the attempts may fail.
            retry.max_attempts = 40;
        }
        let key = self.service.api_key().expect("a fresh service tells its key");
        let base_url = format!("http://{}/api/v1", cable.address);
        let builder = quick(base_url, key).settings(|settings| {
            settings.retry = retry;
            settings.read_timeout = read_timeout;
        });
        built(if keys == Keys::Unknown { builder.middleware(WithoutKeys) } else { builder })
    }

    async fn create(
        &self,
        number: u32,
        breaks: Option<Break>,
        client_timeout: Duration,
        keys: Keys,
    ) -> Result<String, Error> {
        let cable = Cable::to(self.address(), breaks).expect("a port is free");
        let inputs = inputs().set("angle", "30").set("input_image", image(number));
        let run = self.client_over(&cable, client_timeout, keys).model(MODEL).run(inputs).quickly();
        Ok(run.options(|options| options.skip_validation = true).start().await?.id().to_string())
    }

    async fn stored(&self) -> BTreeMap<String, Vec<String>> {
        let mut by_image = BTreeMap::<_, Vec<_>>::new();
        for task in stored(&self.controls, &self.auditor).await {
            assert_eq!(task.status, "in_queue");
            by_image.entry(task.image).or_default().push(task.id);
        }
        by_image
    }

    async fn send(
        &self,
        point: &Point,
        creates: u32,
        keys: Keys,
        random: &mut fastrand::Rng,
    ) -> Vec<Result<String, Error>> {
        self.controls.reset().await.expect("it is reset");
        self.controls.let_model(MODEL, Script::stay_queued()).await.expect("it stays queued");
        if let Problem::Service(fault) = &point.problem {
            let fault = Fault::clone(fault).on(operations::CREATE_TASK);
            let fault = match keys {
                Keys::Unknown => fault.times(creates.into()),
                Keys::Known => fault.with_probability(0.5),
            };
            self.controls.add_fault(fault).expect("it is a fault");
        }
        let gone = Fault::hang_up().on(operations::LIST_TASKS).times(u64::from(creates / 3));
        self.controls.add_fault(gone).expect("it is a fault");
        let breaks: Vec<_> = (0..creates)
            .map(|_| match point.problem {
                Problem::Cable(breaks) => Some(breaks(random.f64())),
                Problem::Service(_) => None,
            })
            .collect();
        stream::iter(
            (0..)
                .zip(breaks)
                .map(|(number, breaks)| self.create(number, breaks, point.client_timeout(), keys)),
        )
        .buffered(SIDE_BY_SIDE)
        .collect()
        .await
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Keys {
    /// None: a create is sent once, and searched in the history.
    Unknown,
    /// Full: a create is retried with its key.
    Known,
}

/// Returns the number of batches and of creates per batch for each point. The history is read to its
/// beginning, so it is kept short.
fn batches() -> (u32, u32) {
    Intensity::of_this_run().times((1, 3), (5, 20))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_keys_no_fault_creates_a_second_task() {
    let ((batches, creates), mut random) = (batches(), Intensity::of_this_run().random());
    let bench = Bench::start().await;
    let (points, mut open, mut done) = (points(), 0, 0);
    for point in &points {
        for _ in 0..batches {
            let results = bench.send(point, creates, Keys::Unknown, &mut random).await;
            let stored = bench.stored().await;
            for (number, result) in (0..).zip(results) {
                let tasks = stored.get(&image(number)).map_or(&[][..], Vec::as_slice);
                check(point, tasks, &result);
                if point.task == TaskDisposition::Open {
                    (open, done) = (open + 1, done + tasks.len());
                }
            }
            let seen = bench.controls.seen(operations::CREATE_TASK);
            assert!(seen <= creates as usize, "{}: sent {seen} times for {creates} creates", point.name);
            audited(&bench.service).await;
        }
    }
    let (count, each) = (points.len(), batches * creates);
    tell(&format!(
        "{count} fault points x {each} creates: 0 duplicates, 0 lost; no caller waited for {open}, {done} were done"
    ));
}

fn check(point: &Point, tasks: &[String], result: &Result<String, Error>) {
    let place = format!("{}: {tasks:?} {result:?}", point.name);
    assert!(tasks.len() <= 1, "created twice: {place}");
    match (point.task, result) {
        (TaskDisposition::None | TaskDisposition::Unsent, Err(_)) => assert!(tasks.is_empty(), "{place}"),
        (
            TaskDisposition::Unsent
            | TaskDisposition::Adopted
            | TaskDisposition::Late
            | TaskDisposition::Open,
            Ok(id),
        ) => {
            assert_eq!(tasks, std::slice::from_ref(id), "{place}");
        }
        (TaskDisposition::Late, Err(Error::OutcomeUnknown(_))) => assert!(tasks.is_empty(), "{place}"),
        // The task may have been created after the last search, so this is no rejection.
        (TaskDisposition::Open, Err(Error::OutcomeUnknown(_))) => {}
        (TaskDisposition::Hidden, Err(Error::Api(_))) => assert_eq!(tasks.len(), 1, "{place}"),
        _ => panic!("{place}"),
    }
    if let Err(Error::Transport(context)) = result {
        assert!(context.is_retry_safe && tasks.is_empty(), "nothing was sent: {place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_keys_every_create_ends_in_exactly_one_task() {
    let ((batches, creates), mut random) = (batches(), Intensity::of_this_run().random());
    let bench = Bench::start().await;
    // A key does not help against an unreachable service or a rejection.
    let beyond = [
        "cut before connecting",
        "not done, answered with 200 that says fail",
        "not done, answered with 409",
    ];
    let mut points = points();
    points.retain(|point| point.task != TaskDisposition::Hidden && !beyond.contains(&point.name.as_str()));
    for point in &points {
        for _ in 0..batches {
            let results = bench.send(point, creates, Keys::Known, &mut random).await;
            let stored = bench.stored().await;
            for (number, result) in (0..).zip(results) {
                let id = result.unwrap_or_else(|error| panic!("{}: {error:?}", point.name));
                assert_eq!(stored.get(&image(number)), Some(&vec![id]), "{}", point.name);
            }
            audited(&bench.service).await;
        }
    }
    let (count, each) = (points.len(), batches * creates);
    tell(&format!("{count} fault points x {each} creates with keys: one task each"));
}
