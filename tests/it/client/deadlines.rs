//! One deadline bounds everything, also a gateway that takes its time to fail. What the service itself
//! can be made to do is in `on_the_service`.

use std::time::{Duration, Instant};

use super::{Quickly, built, inputs, quick};
use crate::support::responder::{Answer, respond};

const DEADLINE: Duration = Duration::from_millis(400);

/// What separates a kept deadline from one that was multiplied by repeats, on a machine that is busy
/// with something else.
const GENEROUS: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_failure_that_drips_does_not_hold_a_run_beyond_its_deadline() {
    for operation in ["/versioning", "/task", "/detail"] {
        let origin = respond(move |request| {
            let usual = r#"{"status": "success", "data": {"model_id": "m", "data": "t"}}"#.to_owned();
            Some(match request.line.ends_with(operation) {
                true => {
                    Answer { code: 502, body: "x".repeat(100_000), pause: Some(Duration::from_millis(5)) }
                }
                false => Answer { code: 200, body: usual, pause: None },
            })
        });
        let client = built(quick(format!("{origin}/api/v1"), "key"));
        let started = Instant::now();
        let run = client.model("m").run(inputs()).quickly().deadline(DEADLINE);
        run.await.expect_err("time is up");
        assert!(started.elapsed() < GENEROUS, "{operation}: {:?}", started.elapsed());
    }
}
