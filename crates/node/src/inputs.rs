//! Inputs of a run: files are fetched, other values stay as the caller wrote them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures_util::future::try_join_all;
use inferstore_fetch::{Fetcher, MAX_FILE, read};
use reqwest::Client;
use reqwest::redirect::Policy;
use serde_json::value::RawValue;
use tokio::time::Instant;
use url::Url;

use crate::Error;
use crate::outputs::Failed;
use crate::service::{Lease, Network};
use crate::work::backoff;

const TIMEOUT: Duration = Duration::from_mins(1);
/// Outage of the object store after which an input fails: longer than a restart takes.
const MAX_OUTAGE: Duration = Duration::from_mins(2);

pub(crate) enum Input {
    File { bytes: Vec<u8>, extension: String },
    Value(Box<RawValue>),
}

pub(crate) type Inputs = BTreeMap<String, Input>;

/// Fetches files: from the service's object store at any address, otherwise from the public internet only.
pub(crate) struct Gatherer {
    public: Fetcher,
    own: Client,
}

impl Gatherer {
    pub(crate) fn new(storage: &Url, network: &Network) -> Result<Self, Error> {
        // One redirect: the service redirects to its object store, which may be on a private network. No
        // `Referer`: the URL stays valid, and the store must not see it.
        let own =
            network.client(storage).redirect(Policy::limited(1)).referer(false).timeout(TIMEOUT).build();
        let own = own.map_err(|cause| Error::new("preparing to fetch files", cause))?;
        Ok(Self { public: Fetcher::default(), own })
    }

    pub(crate) async fn gather(&self, lease: &Lease, storage: &Url) -> Result<Inputs, Failed> {
        let input = async |name: &str, value: &RawValue| {
            let is_file = lease.input_format.get(name).is_some_and(|descriptor| descriptor.is_file());
            let input = match serde_json::from_str::<String>(value.get()) {
                Ok(url) if is_file => {
                    let fetched = self.fetch(&url, storage).await;
                    let bytes = fetched.map_err(|why| Failed::input(format!("{name}: {why}")))?;
                    Input::File { bytes, extension: extension(&url) }
                }
                _ => Input::Value(value.to_owned()),
            };
            Ok((name.to_owned(), input))
        };
        let given = lease.input.iter().filter(|(_, value)| value.get() != "null");
        // Concurrent, so that several slow files take no longer than one.
        let inputs = try_join_all(given.map(|(name, value)| input(name, value))).await?;
        Ok(inputs.into_iter().collect())
    }

    async fn fetch(&self, url: &str, storage: &Url) -> Result<Vec<u8>, String> {
        match Url::parse(url) {
            Ok(parsed) if is_within(&parsed, storage) => self.fetch_own(&parsed).await,
            _ => self.public.fetch(url).await,
        }
    }

    async fn fetch_own(&self, url: &Url) -> Result<Vec<u8>, String> {
        let given_up_at = Instant::now() + MAX_OUTAGE;
        let mut failures = 0;
        loop {
            match read(&self.own, url.clone(), MAX_FILE).await {
                Err(error) if error.is_temporary() && Instant::now() < given_up_at => {
                    tracing::warn!(%error, "an input cannot be fetched; trying again");
                    tokio::time::sleep(backoff(&mut failures)).await;
                }
                fetched => return fetched.map_err(|error| error.to_string()),
            }
        }
    }
}

fn is_within(url: &Url, storage: &Url) -> bool {
    let rest = url.path().strip_prefix(storage.path().trim_end_matches('/'));
    url.origin() == storage.origin() && rest.is_some_and(|rest| rest.starts_with('/'))
}

fn extension(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return String::new() };
    let end = Path::new(url.path()).extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_plain = end.len() <= 10 && end.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { end.to_ascii_lowercase() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use inferstore_wire::{Reaction, Server, response};

    use super::*;

    #[test]
    fn files_of_the_service_are_those_below_its_storage_address() -> Result<(), url::ParseError> {
        let storage = Url::parse("https://host/files")?;
        for (url, is_own) in [
            ("https://host/files/bucket/token/a.png", true),
            ("https://host/files-of-others/a.png", false),
            ("https://host/admin", false),
            ("https://other/files/bucket/token/a.png", false),
        ] {
            assert_eq!(is_within(&Url::parse(url)?, &storage), is_own, "{url}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn only_the_service_may_be_on_this_machine() -> Result<(), Box<dyn std::error::Error>> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let here = listener.local_addr()?;
        let storage = Url::parse("http://127.0.0.1:1/")?;
        let gatherer = Gatherer::new(&storage, &Network::default())?;
        for url in [format!("http://{here}/x"), format!("http://localhost:{}/x", here.port())] {
            let refused = gatherer.fetch(&url, &storage).await;
            assert!(refused.is_err_and(|why| why.contains("public internet")), "{url}");
        }
        let connected = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(connected.is_err(), "something connected");
        Ok(())
    }

    #[tokio::test]
    async fn the_service_may_redirect_to_its_object_store_on_a_private_network()
    -> Result<(), Box<dyn std::error::Error>> {
        let store = Server::answering(response("200 OK", "text/plain", "bytes"));
        let moved = vec![("location", format!("{}/x", store.origin()))];
        let service = Server::start(move |_| Reaction::Answer(302, moved.clone(), Vec::new()));
        let storage = Url::parse(&service.origin())?;
        let url = format!("{storage}files/token/samples/a.txt");
        assert_eq!(Gatherer::new(&storage, &Network::default())?.fetch(&url, &storage).await?, b"bytes");
        Ok(())
    }

    #[tokio::test]
    async fn an_own_file_is_fetched_again_while_the_object_store_is_away()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut statuses = [503, 200].into_iter();
        let respond =
            move |_: &_| Reaction::Answer(statuses.next().unwrap_or(404), Vec::new(), b"bytes".to_vec());
        let storage = Url::parse(&Server::start(respond).origin())?;
        let gatherer = Gatherer::new(&storage, &Network::default())?;
        let url = format!("{storage}files/a.txt");
        assert_eq!(gatherer.fetch(&url, &storage).await?, b"bytes");
        let gone = gatherer.fetch(&url, &storage).await;
        assert!(gone.is_err_and(|why| why.contains("404")), "what is not there is not waited for");
        Ok(())
    }

    #[tokio::test]
    async fn null_is_not_given_to_a_model() -> Result<(), Box<dyn std::error::Error>> {
        let storage = Url::parse("http://127.0.0.1:1/")?;
        let lease: Lease = serde_json::from_value(serde_json::json!({
            "task": "t", "attempt": 1, "model": "m", "input": { "a": null, "b": 1, "c": null },
            "input_format": { "a": { "type": "string" }, "c": { "type": "file" } }, "output_format": {},
            "lease_seconds": 30.0
        }))?;
        let inputs = Gatherer::new(&storage, &Network::default())?.gather(&lease, &storage).await;
        let inputs = inputs.map_err(|failed| failed.message)?;
        assert_eq!(inputs.keys().collect::<Vec<_>>(), ["b"]);
        Ok(())
    }

    #[test]
    fn extensions_are_what_files_may_have() {
        for (url, expected) in [
            ("https://example.com/a/b.PNG?x=y.z", "png"),
            ("https://example.com/a", ""),
            ("https://example.com/a.b%2fc", ""),
            ("https://example.com/.png", ""),
            ("https://example.com/a.averylongend", ""),
        ] {
            assert_eq!(extension(url), expected, "{url}");
        }
    }
}
