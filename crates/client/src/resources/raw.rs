//! Requests that no handle knows, and answers as the service wrote them.

use std::fmt;
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::client::Client;
use crate::transport::call::Call;
use crate::transport::error::{Error, Result};

/// Does the work, and tells the payload of the last answer in it as the service wrote it: every digit,
/// every field that no type knows. None when nothing was answered, or the answer has no payload.
///
/// ```no_run
/// # async fn example(client: inferstore::Client) -> Result<(), inferstore::Error> {
/// let (balance, payload) = inferstore::with_payload(client.account().balance()).await;
/// println!("{:?}: {:?}", balance?.balance, payload.map(|payload| payload.to_string()));
/// # Ok(())
/// # }
/// ```
///
/// Calls in tasks that the work spawns are not heard.
pub async fn with_payload<T>(work: impl Future<Output = T>) -> (T, Option<Box<RawValue>>) {
    #[derive(serde::Deserialize)]
    struct Enveloped {
        data: Option<Box<RawValue>>,
    }
    let (done, body) = inferstore_api::hear_body(work).await;
    let enveloped = body.and_then(|body| serde_json::from_str::<Enveloped>(&body).ok());
    (done, enveloped.and_then(|enveloped| enveloped.data))
}

/// The method of a request that no handle knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method(reqwest::Method);

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            known @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE") => {
                known.parse().map(Self).map_err(|_| format!("{text:?} is no method"))
            }
            _ => Err(format!("{text:?} is no method that a service answers; give GET, POST or DELETE")),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Client {
    /// Sends a request that no handle knows to a path below the base URL, with a JSON body or none, and
    /// returns the whole answer as the service wrote it, envelope included.
    ///
    /// A `GET` is repeated like every read. Anything else is sent once, because its effect is unknown.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the path does not begin with a slash, and those of every call.
    pub async fn request(&self, method: Method, path: &str, body: Option<&RawValue>) -> Result<String> {
        let call = match method.0.as_str() {
            "GET" => Call::repeatable("the request"),
            _ => Call::once("the request"),
        };
        let (client, method, body) = (&*self.inner, &method.0, body.map(RawValue::get));
        let send = call.send(client, || client.api.send(method.clone(), path, body));
        let (sent, answer) = inferstore_api::hear_body(send).await;
        sent?;
        answer.ok_or_else(|| Error::InvalidArgument("the answer has no body".to_owned()))
    }
}
