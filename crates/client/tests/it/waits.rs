//! Waits for tasks that are canceled, unreadable or already awaited, with the test kit and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Method, Request, Response};
use inferstore::{Client, Error, Inputs, PollInterval, Task, TaskDisposition};
use inferstore_testing::ScriptedService;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

async fn start(client: &Client) -> Task {
    client.model("m").run(Inputs::new()).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_task_that_was_canceled_is_no_success() {
    let service = ScriptedService::new();
    let _ = service.model("m").stays_queued();
    let task = start(&service.client().unwrap()).await;
    task.cancel().await.unwrap();
    let error = task.wait().await.unwrap_err();
    assert!(matches!(&error, Error::TaskCanceled(id) if id == task.id()), "{error:?}");
}

/// Returns a task this many times, then fails.
struct Shows(AtomicU32);

impl Middleware for Shows {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let is_read = request.url().path().ends_with("/detail");
        let shows = |left: u32| left.checked_sub(1);
        if is_read && self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, shows).is_err() {
            return std::future::pending().boxed();
        }
        next.run(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_read_is_the_cause_of_a_deadline_unless_it_just_began() {
    for (shown, disposition) in [(0, TaskDisposition::Unknown), (1, TaskDisposition::StillRunning)] {
        let service = ScriptedService::new();
        let _ = service.model("m").stays_queued();
        let client = service.client_builder().middleware(Shows(shown.into())).build().unwrap();
        let wait = start(&client).await.wait().poll(PollInterval::every(100 * SECOND));
        let error = wait.deadline(30 * SECOND).await.unwrap_err();
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!(reached.disposition, disposition);
        // The second read begins half a second before the deadline.
        assert_eq!(error.source().is_some(), shown == 0, "{error:?}");
    }
}

/// Effect of a cancel.
enum Cancel {
    /// Rejected with this status.
    Refused(u16),
    /// Takes effect, and responds after this time.
    Slow(Duration),
    /// Takes effect, but its response is lost; later cancels are rejected by a rate limit, and reads show this
    /// status. `None`: they hang.
    Lost(AtomicBool, Option<&'static str>),
}

impl Middleware for Cancel {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let respond = |status: u16, body: String| {
            Response::from(http::Response::builder().status(status).body(body).unwrap())
        };
        let refuse = |status| std::future::ready(Ok(respond(status, String::new()))).boxed();
        if request.method() != Method::DELETE {
            return match *self {
                Self::Lost(ref was_sent, shown) if was_sent.load(Ordering::Relaxed) => async move {
                    let task = next.run(request).await?.text().await?;
                    match shown {
                        Some(status) => Ok(respond(200, task.replace("canceled", status))),
                        None => std::future::pending().await,
                    }
                }
                .boxed(),
                _ => next.run(request),
            };
        }
        match self {
            Self::Refused(status) => refuse(*status),
            Self::Lost(was_sent, _) if was_sent.swap(true, Ordering::Relaxed) => refuse(429),
            Self::Lost(..) => {
                async move { next.run(request).await.map(|_| respond(504, String::new())) }.boxed()
            }
            Self::Slow(delay) => async move {
                let response = next.run(request).await;
                sleep(*delay).await;
                response
            }
            .boxed(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_counts_as_canceled_only_when_the_service_said_so() {
    for (cancel, expected) in [
        (Cancel::Refused(503), TaskDisposition::CancelUnknown),
        (Cancel::Refused(429), TaskDisposition::StillRunning),
        (Cancel::Refused(409), TaskDisposition::StillRunning),
        (Cancel::Lost(AtomicBool::new(false), None), TaskDisposition::CancelUnknown),
        (Cancel::Lost(AtomicBool::new(false), Some("migrating")), TaskDisposition::CancelUnknown),
        (Cancel::Lost(AtomicBool::new(false), Some("computing")), TaskDisposition::StillRunning),
        // The cancel is sent two seconds before the deadline.
        (Cancel::Slow(SECOND * 21 / 10), TaskDisposition::Canceled),
        (Cancel::Slow(SECOND * 3), TaskDisposition::CancelUnknown),
    ] {
        let service = ScriptedService::new();
        let _ = service.model("m").stays_queued();
        let client = service.client_builder().middleware(cancel).build().unwrap();
        let wait = start(&client).await.wait().deadline(20 * SECOND).cancel_at_deadline(true);
        let error = wait.await.unwrap_err();
        let Error::DeadlineReached(reached) = &error else { panic!("{error:?}") };
        assert_eq!(reached.disposition, expected, "{error:?}");
    }
}
