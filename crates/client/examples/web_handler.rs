//! `POST /dehaze` takes a picture and returns it without haze, within 30 seconds: `curl --data-binary
//! @hazy.png http://127.0.0.1:3000/dehaze > clear.png`.
//!
//! axum drops the future of a handler when the browser disconnects. `Abandon::CancelAndDelete` then cancels the task
//! if it is still queued, even if its create was in progress, and deletes the uploaded picture.

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use inferstore::{Abandon, Client, Error, File, Inputs};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // axum takes 2 MB by default, and photos are larger.
    let limit = DefaultBodyLimit::max(50 * 1024 * 1024);
    let app = Router::new().route("/dehaze", post(dehaze)).layer(limit).with_state(Client::from_env()?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

pub(crate) async fn dehaze(State(client): State<Client>, picture: Bytes) -> Result<Body, Failure> {
    let inputs = Inputs::new().file("input_image", File::bytes("upload", picture));
    let run = client.model("haze-removal").run(inputs);
    let run = run.deadline(Duration::from_secs(30)).on_abandon(Abandon::CancelAndDelete);
    let outcome = run.options(|options| options.delete_inputs_after = true).await?;
    // A broken download breaks the response: a partial picture never looks complete.
    Ok(Body::from_stream(outcome.download("output_image")?.stream()))
}

/// Converts an error to a response. Messages of the crate contain no secrets and may be shown.
pub(crate) struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            Error::Inputs(_) | Error::File(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::DeadlineReached(_) => StatusCode::GATEWAY_TIMEOUT,
            error if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        (status, self.0.to_string()).into_response()
    }
}
