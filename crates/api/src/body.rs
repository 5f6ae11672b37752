//! The body of an answer as it came, beside the type that it was read into.

use std::cell::RefCell;

use listener::HEARD;

mod listener {
    use std::cell::RefCell;

    tokio::task_local! {
        /// What was heard last by whoever listens in this task.
        pub(super) static HEARD: RefCell<Option<String>>;
    }
}

/// Does the work, and tells the body of the last successful answer in it: every digit, every field that
/// no type knows, in the order of the service.
///
/// ```no_run
/// # async fn example(client: inferstore_api::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (balance, body) = inferstore_api::hear_body(client.get_balance()).await;
/// println!("{:?} was read from {}", balance?.into_inner().data, body.unwrap_or_default());
/// # Ok(())
/// # }
/// ```
///
/// Only calls that the work makes itself are heard, not those of tasks that it spawns. A body may hold
/// what grants access, as that of `create_presigned_upload` does.
pub async fn hear_body<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let listening = async {
        let done = work.await;
        (done, HEARD.with(RefCell::take))
    };
    HEARD.scope(RefCell::new(None), listening).await
}

/// The same answer, after its body was heard if someone listens.
pub(crate) async fn heard(answer: reqwest::Response) -> reqwest::Result<reqwest::Response> {
    let is_listening = HEARD.try_with(|_| ()).is_ok();
    if !is_listening || !answer.status().is_success() {
        return Ok(answer);
    }
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.bytes().await?;
    HEARD.with(|heard| heard.replace(Some(String::from_utf8_lossy(&body).into_owned())));
    let mut again = http::Response::new(body);
    *again.status_mut() = status;
    *again.headers_mut() = headers;
    Ok(again.into())
}
