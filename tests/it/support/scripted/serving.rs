//! Accepts connections and leads every request through the script, from its head to its answer.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::Delivery;
use super::content::Received;
use super::fault::{Fault, Moment};
use super::fault_queue::FaultQueue;
use super::http::{Connection, Ending, Framing, Head};
use super::journal::Journal;
use super::route::{Route, Side};
use super::state::{Request, State};

/// How much of a body is held when it has to be read as JSON or as a form.
const MAX_PARSED: usize = 8 * 1024 * 1024;

/// What the listeners and the test share.
pub(super) struct Shared {
    state: Mutex<State>,
    faults: Mutex<FaultQueue>,
    journal: Mutex<Journal>,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), faults: Mutex::default(), journal: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no request made the service panic")
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, FaultQueue> {
        self.faults.lock().expect("no request made the service panic")
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().expect("no request made the service panic")
    }
}

/// Serves until it is aborted, and its connections with it.
pub(super) async fn serve(listener: TcpListener, side: Side, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while open.try_join_next().is_some() {}
        shared.journal().connections += 1;
        if side == Side::Api && shared.faults().take_at_accept() {
            continue;
        }
        open.spawn(converse(stream, side, Arc::clone(&shared)));
    }
}

async fn converse(stream: TcpStream, side: Side, shared: Arc<Shared>) {
    let mut connection = Connection::new(stream);
    while let Some(head) = connection.head().await {
        if let ControlFlow::Break(ending) = exchange(&mut connection, head, side, &shared).await {
            return connection.end(ending).await;
        }
    }
}

/// One request and its answer. Breaks when the connection is to end.
async fn exchange(
    connection: &mut Connection,
    head: Head,
    side: Side,
    shared: &Arc<Shared>,
) -> ControlFlow<Ending> {
    let (route, subject) = side.recognize(&head);
    let fault = shared.faults().take(route);
    let entry = shared.journal().begin(route, &head, fault.clone());
    end_at(Moment::BeforeReading, fault.as_ref())?;
    end_at(Moment::AfterHeaders, fault.as_ref())?;

    let mut body = Received::keeping_first(match (route, head.method.as_str()) {
        (Route::StorageUpload, "PUT") => shared.state().storage.kept,
        _ => MAX_PARSED,
    });
    let mid_body = end_at(Moment::MidBody, fault.as_ref());
    let framing = if mid_body.is_break() { half(head.framing()) } else { head.framing() };
    let complete = connection.body(framing, &mut body).await;
    shared.journal().note_body(entry, &body);
    mid_body?;
    if complete.is_none() {
        return ControlFlow::Break(Ending::Close);
    }

    let keeps_alive = head.keeps_alive();
    let request = Request { route, subject, head, body };
    let upload = shared.state().note_upload(&request);
    if let Some(Fault::CommitAfterCloseMs(delay)) = fault {
        tokio::spawn(commit_later(request.clone(), Duration::from_millis(delay), Arc::clone(shared)));
    }
    end_at(Moment::AfterRequest, fault.as_ref())?;
    let refusal = fault.as_ref().and_then(Fault::refusal);
    let answer = refusal.unwrap_or_else(|| {
        let answer = shared.state().answer(&request, upload);
        shared.journal().entries[entry].committed = answer.is_success();
        fault.iter().fold(answer, |answer, fault| fault.distort(answer))
    });
    end_at(Moment::AfterCommit, fault.as_ref())?;

    if let Some(fault) = &fault {
        tokio::time::sleep(fault.delay()).await;
    }
    shared.journal().entries[entry].answered = Some(answer.code);
    let date = shared.state().clock.now().http();
    let delivery = fault.as_ref().map_or(Delivery::Whole, Fault::delivery);
    match answer.with_header("date", &date).send(delivery, connection).await {
        Some(()) if keeps_alive => ControlFlow::Continue(()),
        _ => ControlFlow::Break(Ending::Close),
    }
}

/// Nobody waits for the answer any more.
async fn commit_later(request: Request, delay: Duration, shared: Arc<Shared>) {
    tokio::time::sleep(delay).await;
    shared.state().answer(&request, None);
}

fn end_at(moment: Moment, fault: Option<&Fault>) -> ControlFlow<Ending> {
    match fault.and_then(|fault| fault.ends_at(moment)) {
        Some(ending) => ControlFlow::Break(ending),
        None => ControlFlow::Continue(()),
    }
}

/// Half of a body whose length is known; of a body in chunks, nothing.
fn half(framing: Framing) -> Framing {
    match framing {
        Framing::Length(length) => Framing::Length(length / 2),
        Framing::Chunked => Framing::Length(0),
    }
}
