//! All failures of a create, from before the connection to after its response.

use std::time::Duration;

use inferstore_service::Fault;

use inferstore_wire::Break;

pub(crate) struct Point {
    pub(crate) name: String,
    pub(crate) problem: Problem,
    pub(crate) task: TaskDisposition,
}

pub(crate) enum Problem {
    Cable(Place),
    Service(Box<Fault>),
}

pub(crate) type Place = fn(f64) -> Break;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TaskDisposition {
    /// No task; the caller learns that, or that the outcome is unknown.
    None,
    /// No task, unless the client saw the connection fail before it sent anything: then it retried, and the
    /// caller gets the one task.
    Unsent,
    /// One task, and the caller gets it.
    Adopted,
    /// One task, and the caller gets it, unless the client timed out before.
    Late,
    /// One task or none: the caller gets it, or learns that the outcome is unknown.
    Open,
    /// One task, but the caller learns of a rejection. The rejection is false; a client that trusted no
    /// rejection could never report that nothing was created.
    Hidden,
}

const NEVER: Duration = Duration::from_mins(10);

const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

impl Point {
    pub(crate) fn client_timeout(&self) -> Duration {
        match self.name.starts_with(SILENT) {
            true => CLIENT_TIMEOUT,
            false => Duration::from_mins(1),
        }
    }
}

const SILENT: &str = "not answered in time";

pub(crate) fn points() -> Vec<Point> {
    let cable: [(&str, Place, TaskDisposition); 8] = [
        ("before connecting", |_| Break::BeforeConnecting, TaskDisposition::None),
        ("at accept", |_| Break::AtAccept, TaskDisposition::Unsent),
        ("in the head of the request", Break::InHead, TaskDisposition::None),
        ("in the body of the request", Break::InBody, TaskDisposition::None),
        ("after the request", |_| Break::AfterRequest, TaskDisposition::Open),
        ("after the answer was sent", |_| Break::AfterAnswer, TaskDisposition::Adopted),
        ("in the head of the answer", Break::InAnswerHead, TaskDisposition::Adopted),
        ("in the body of the answer", Break::InAnswerBody, TaskDisposition::Adopted),
    ];
    let cable = cable.map(|(name, broken, task)| Point {
        name: format!("cut {name}"),
        problem: Problem::Cable(broken),
        task,
    });
    let service = [
        ("hung up on", Fault::hang_up(), TaskDisposition::None),
        ("done, answer lost", Fault::lose_response(), TaskDisposition::Adopted),
        (
            "done, answer lost late",
            Fault::lose_response().delayed(Duration::from_millis(5)),
            TaskDisposition::Adopted,
        ),
        ("done, answer cut", Fault::cut_body(20), TaskDisposition::Adopted),
        (
            "done, answer is half of a JSON",
            Fault::status(200).body(JSON, HALF).after_commit(),
            TaskDisposition::Adopted,
        ),
        ("not done, answer is half of a JSON", Fault::status(200).body(JSON, HALF), TaskDisposition::None),
        (
            "not done, answered with 200 that says fail",
            Fault::status(200).body(JSON, FAIL),
            TaskDisposition::None,
        ),
        ("not answered in time, not done", Fault::delay(NEVER), TaskDisposition::None),
        ("not answered in time, done", Fault::delay(NEVER).after_commit(), TaskDisposition::Late),
    ];
    let service = service.map(|(name, fault, task)| Point {
        name: name.to_owned(),
        problem: Problem::Service(Box::new(fault)),
        task,
    });
    cable.into_iter().chain(service).chain(statuses()).collect()
}

const JSON: &str = "application/json";

/// Beginning of a response that would have named the task.
const HALF: &str = r#"{"status":"success","message":"created","data":{"data":"3f"#;

const FAIL: &str = r#"{"status":"fail","message":"no"}"#;

fn statuses() -> impl Iterator<Item = Point> {
    [408, 409, 429, 500, 502, 503, 504].into_iter().flat_map(|status| {
        let answer = match status {
            502 | 504 => Fault::status(status).body("text/html", "<html><h1>a gateway</h1></html>"),
            429 => Fault::status(status).retry_after(0),
            _ => Fault::status(status),
        };
        let done =
            if matches!(status, 409 | 429) { TaskDisposition::Hidden } else { TaskDisposition::Adopted };
        [("not done", answer.clone(), TaskDisposition::None), ("done", answer.after_commit(), done)].map(
            |(whether, fault, task)| Point {
                name: format!("{whether}, answered with {status}"),
                problem: Problem::Service(Box::new(fault)),
                task,
            },
        )
    })
}
