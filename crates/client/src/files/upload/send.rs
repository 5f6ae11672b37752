//! One attempt to send a file to its target.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream::{self, Stream, StreamExt};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, RequestBuilder, Response};
use tokio::sync::watch;
use tokio::time::timeout;

use super::body;
use super::fault::{Failed, Fault, Kind};
use super::form::Form;
use super::target::{Target, Way};
use crate::client::Inner;
use crate::files::source::{Opened, trouble};
use crate::transport::redact::redact;

/// Sends the whole file once, and tells how many bytes of it are on their way.
pub(super) async fn send(
    client: &Inner,
    target: &Target,
    file: &Opened,
    on_sent: &mut (dyn FnMut(u64) + Send),
) -> Result<(), Failed> {
    let (chunks, mut observer) = body::stream(file);
    let request = request(client, target, file, chunks);
    let idle = client.settings.transfer_timeout;
    // What leaves the last buffer of this machine, and what the store does with the whole, is not seen.
    let patience = idle.max(client.settings.read_timeout);
    let answer = answer(request, &mut observer.sent, (idle, patience), on_sent).await;
    if let Some(problem) = observer.trouble() {
        return Err(Failed::Here(trouble(file.label(), problem)));
    }
    let response = answer.map_err(Failed::There)?;
    let status = response.status();
    if status.is_redirection() {
        let problem =
            format!("object storage answered {}, and a file is not sent to another place", status.as_u16());
        return Err(Failed::There(Fault::new(Kind::Final, problem)));
    }
    if !status.is_success() {
        let mask = |text: &str| redact(&target.mask.over(text), client.key.expose());
        return Err(Failed::There(Fault::answered(response, mask).await));
    }
    if *observer.sent.borrow() < file.size() {
        return Err(Failed::There(Fault::new(
            Kind::Passing,
            "object storage answered before it had the whole file",
        )));
    }
    Ok(())
}

fn request(
    client: &Inner,
    target: &Target,
    file: &Opened,
    chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> RequestBuilder {
    let url = target.url.clone();
    // Without a length the body would be chunked, which object storage refuses.
    match &target.way {
        Way::Put { content_type } => {
            let request = client.storage.put(url).header(CONTENT_TYPE, content_type);
            request.header(CONTENT_LENGTH, file.size()).body(Body::wrap_stream(chunks))
        }
        Way::Form { fields } => {
            let form = Form::new(fields, file.name(), file.mime());
            let request = client.storage.post(url).header(CONTENT_TYPE, form.content_type());
            let request = request.header(CONTENT_LENGTH, form.length(file.size()));
            let around = |bytes| stream::iter([Ok(bytes)]);
            request.body(Body::wrap_stream(
                around(form.before_file).chain(chunks).chain(around(form.after_file)),
            ))
        }
    }
}

/// Waits for the answer as long as something moves: `idle` between two pieces of the file, and
/// `patience` once all of it is on its way.
async fn answer(
    request: RequestBuilder,
    sent: &mut watch::Receiver<u64>,
    (idle, patience): (Duration, Duration),
    on_sent: &mut (dyn FnMut(u64) + Send),
) -> Result<Response, Fault> {
    let mut answer = pin!(request.send());
    loop {
        let counted = match timeout(idle, select(answer.as_mut(), pin!(sent.changed()))).await {
            Ok(Either::Left((answer, _))) => return answer.map_err(Fault::transport),
            Ok(Either::Right((counted, _))) => counted,
            Err(_) => return Err(Fault::standstill(idle)),
        };
        if counted.is_err() {
            // The count is over, so all of the file is on its way, or its failure is.
            let answer = timeout(patience, answer).await.map_err(|_| Fault::standstill(patience))?;
            return answer.map_err(Fault::transport);
        }
        let sent = *sent.borrow_and_update();
        on_sent(sent);
    }
}
