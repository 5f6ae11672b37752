//! Blocking form of futures and streams, against the test kit.

use std::time::Duration;

use inferstore::blocking::{Blocking, BlockingIter};
use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore::{Abandon, Client, File, Inputs, RunEvent, Step};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tokio::sync::Barrier;

fn service() -> ScriptedService {
    let service = ScriptedService::new();
    let output = service.stores("output.png", "image/png", b"pixels".to_vec());
    let _ = service.model("m").takes(Duration::ZERO).succeeds(json!({ "output": output }));
    let _ = service.model("queued").stays_queued();
    service
}

fn program(client: &Client) {
    assert!(client.balance().blocking().expect("a balance").balance.is_some());
    let inputs = Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
    let outcome = client.model("m").run(inputs.clone()).blocking().expect("it succeeds");
    let picture = outcome.download("output").expect("a URL").bytes().blocking().expect("it is stored");
    assert_eq!(picture, b"pixels"[..]);
    let steps: Vec<_> = client.model("m").run(inputs).events().blocking_iter().collect();
    assert!(
        matches!(steps.first(), Some(Step::Event(RunEvent::Upload { .. } | RunEvent::Creating))),
        "{steps:?}"
    );
    assert!(matches!(steps.last(), Some(Step::End(Ok(_)))), "{steps:?}");
    let models = client.models(Default::default()).blocking_iter();
    assert_eq!(
        models.map(|model| model.expect("a page").id.to_string()).collect::<Vec<_>>(),
        ["m", "queued"]
    );
    let stopped = client.model("queued").run(Inputs::new()).deadline(Duration::from_millis(300));
    let error = stopped.on_abandon(Abandon::Cancel).blocking().expect_err("it stays in the queue");
    assert!(error.is_timeout(), "{error:?}");
}

#[test]
fn a_program_without_a_runtime_runs_downloads_and_lists() {
    program(&service().client().expect("a client"));
}

#[tokio::test]
async fn inside_of_a_runtime_it_blocks_and_does_not_panic() {
    program(&service().client().expect("a client"));
}

struct Together(Barrier);

impl Middleware for Together {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        Box::pin(async move {
            if next.operation() == "createTask" {
                self.0.wait().await;
            }
            next.run(request).await
        })
    }
}

#[test]
fn many_threads_wait_at_the_same_time() {
    let service = service();
    let together = Together(Barrier::new(8));
    let client = service.client_builder().middleware(together).build().expect("a client");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| client.model("queued").run(Inputs::new()).start().blocking().expect("a task"));
        }
    });
    assert_eq!(service.created().len(), 8);
}
