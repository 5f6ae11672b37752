//! `inferstore doctor`: finds out which part of the way to the service does not work.

use std::time::{Duration, SystemTime};

use clap::Args;
use inferstore::reqwest::{Method, Url};
use inferstore::types::{PresignRequest, UploadFolder};
use inferstore::{Client, Error, redact_url};
use inferstore_drift::{Document, Finding, Survey};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::exit;
use crate::failure::{Failure, Result, hint_of_certificate};
use crate::output::Report;
use crate::settings::Session;
use crate::table::{Cell, Fit, Table};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  inferstore doctor\n  inferstore doctor --api\n  inferstore doctor --profile staging --json"
)]
pub(crate) struct Arguments {
    /// Also compare the responses of all calls that only read with the API document of this version: a row for each
    /// field, word, null and type that the document does not have, without values
    #[arg(long)]
    api: bool,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A clock that is off by more makes signatures of uploads invalid.
const MAX_SKEW: Duration = Duration::from_mins(1);

#[derive(Default)]
struct Checks {
    done: Vec<(&'static str, String)>,
    /// Differences of the responses from the document. The further checks do not depend on them.
    findings: Vec<Finding>,
    failed: Option<(&'static str, Failure)>,
}

const DOCUMENT: &str = "document";

impl Checks {
    /// Notes a check. `None` ends the checks: the further ones would fail too.
    fn note<T>(&mut self, name: &'static str, result: Result<(T, String)>) -> Option<T> {
        match result {
            Ok((value, detail)) => {
                self.done.push((name, detail));
                return Some(value);
            }
            Err(failure) => self.failed = Some((name, failure)),
        }
        None
    }
}

pub(crate) async fn execute(arguments: &Arguments, session: &Session) -> Result {
    let mut checks = Checks::default();
    checks.done.push(("version", concat!("inferstore ", env!("CARGO_PKG_VERSION")).to_owned()));
    run(&mut checks, arguments, session).await;
    let mut table = Table::new([("CHECK", Fit::Keep), ("RESULT", Fit::Keep), ("DETAIL", Fit::Keep)]);
    let mut records = Vec::new();
    for (name, detail) in &checks.done {
        table.add([Cell::from(*name), Cell::good("ok"), Cell::from(detail.as_str())]);
        records.push(json!({"check": name, "ok": true, "detail": detail}).to_string());
    }
    for finding in &checks.findings {
        table.add([Cell::from(DOCUMENT), Cell::warning("differs"), Cell::from(finding.to_string())]);
        let detail = finding.difference.to_string();
        let record = json!({"check": DOCUMENT, "ok": false, "pointer": finding.pointer, "detail": detail});
        records.push(record.to_string());
    }
    if let Some((name, failure)) = &checks.failed {
        table.add([Cell::from(*name), Cell::status("failed"), Cell::default()]);
        records.push(json!({"check": name, "ok": false, "detail": failure.headline}).to_string());
    }
    let differs = (!checks.findings.is_empty()).then_some(DOCUMENT);
    let failed = checks.failed.as_ref().map(|(name, _)| *name);
    let quiet = differs.into_iter().chain(failed).map(str::to_owned).collect();
    session.output.report(&Report::of_list(table, records, quiet))?;
    match checks.failed {
        Some((_, failure)) => Err(failure),
        None if differs.is_some() => Err(differences(checks.findings.len())),
        None => Ok(()),
    }
}

async fn run(checks: &mut Checks, arguments: &Arguments, session: &Session) -> Option<()> {
    let target = session.target().map(|target| {
        let (url, sources) = (redact_url(&target.base_url.value), [&target.base_url, &target.api_key]);
        let [url_source, key_source] = sources.map(|setting| &setting.source);
        let mut detail = format!("{url} (from {url_source}), the key from {key_source}");
        let (cacert, proxy) = session.cacert_and_proxy(&target.base_url.value);
        detail.extend(cacert.map(|path| format!(", with the certificates in {}", path.display())));
        detail.extend(proxy.map(|proxy| format!(", through the proxy {}", redact_url(&proxy))));
        (target, detail)
    });
    let target = checks.note("settings", target)?;
    let client = session.client_of(&target.base_url.value, &target.api_key.value);
    let client = checks.note("address", client.map(|client| (client, "it is a base URL".to_owned())))?;
    match session.proxy_to(client.base_url()) {
        // The proxy resolves the name of the service.
        Some(proxy) => {
            let proxied = async { connect(&resolve(&proxy).await?.0).await };
            let hint = "check --proxy, the profile, and HTTPS_PROXY, HTTP_PROXY and ALL_PROXY";
            checks.note("proxy", proxied.await.map_err(|failure| failure.about("proxy").with_hint(hint)))?;
        }
        None => {
            let host = checks.note("DNS", resolve(client.base_url()).await)?;
            checks.note("connection", connect(&host).await)?;
        }
    }
    let started = SystemTime::now();
    let balance = client.balance().await;
    checks.note("TLS", tls(client.base_url(), balance.as_ref().err()))?;
    // A service that has moved may send what this version cannot decode: the survey says where.
    let decode_error = match balance {
        Err(error @ Error::Decode(_)) if arguments.api => Some(error),
        balance => checks.note("API and key", api(balance.err(), started)).and(None),
    };
    if checks.failed.is_some() {
        return None;
    }
    if arguments.api {
        let survey = survey(&client).await;
        let survey = survey.map(|survey| (survey.findings().to_vec(), surveyed(&survey)));
        checks.findings = checks.note(DOCUMENT, survey)?;
    }
    if let Some(error) = decode_error {
        checks.note("API and key", api(Some(error), started))?;
    }
    checks.note("clock", clock(&client))?;
    checks.note("object storage", storage(&client).await)
}

/// The host and the port of a URL, after its name was resolved.
async fn resolve(url: &str) -> Result<(String, String)> {
    let parsed = Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    let Some((host, port)) = host else {
        return Err(Failure::usage("the URL has no host").with_hint("`inferstore status` shows it"));
    };
    let place = format!("{host}:{port}");
    let failed = |problem: String| {
        Failure::new(exit::NOT_REACHED, format!("the name {host} is not resolved: {problem}"))
            .with_hint("check the spelling of the base URL, and the DNS of this machine")
    };
    let found = lookup_host(&place).await.map_err(|error| failed(error.to_string()))?;
    let found: Vec<String> = found.map(|address| address.ip().to_string()).collect();
    if found.is_empty() { Err(failed("it has no address".to_owned())) } else { Ok((place, found.join(", "))) }
}

async fn connect(place: &str) -> Result<((), String)> {
    let failed = |problem: &str| {
        let hint =
            "is the service running? `inferstore serve` runs one here; else look at firewalls and proxies";
        Failure::new(exit::NOT_REACHED, format!("{place} is not reached: {problem}")).with_hint(hint)
    };
    let addresses = lookup_host(place).await.map_err(|error| failed(&error.to_string()))?;
    let (mut dead, mut problem) = (String::new(), String::new());
    // As the client does, which takes the first address that responds.
    for address in addresses {
        problem = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(_)) => return Ok(((), format!("{place} accepts connections{dead}"))),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no response within 5 seconds".to_owned(),
        };
        dead += &format!("; not reached: {}", address.ip());
    }
    Err(failed(&problem))
}

/// Checks by the error of the first call that the certificate of the service is accepted.
fn tls(base_url: &str, error: Option<&Error>) -> Result<((), String)> {
    if !base_url.starts_with("https:") {
        return Ok(((), "the base URL is plain http".to_owned()));
    }
    let Some(error @ Error::Transport(_)) = error else {
        return Ok(((), "the certificate is accepted".to_owned()));
    };
    let cause = error.with_causes();
    let hint = hint_of_certificate(&cause);
    let hint = hint.unwrap_or("is the scheme https, and is a proxy or a firewall in between?");
    let cause = cause.rsplit_once("certificate: ").map_or(&*cause, |(_, cause)| cause);
    Err(Failure::new(exit::NOT_REACHED, format!("no TLS connection is made: {cause}")).with_hint(hint))
}

fn api(error: Option<Error>, started: SystemTime) -> Result<((), String)> {
    let elapsed = started.elapsed().unwrap_or_default().as_millis();
    let detail = format!("it responds within {elapsed} ms, and accepts the key");
    error.map_or(Ok(((), detail)), |error| Err(error.into()))
}

async fn survey(client: &Client) -> Result<Survey<'static>> {
    let mut survey = Survey::new(Document::embedded());
    while let Some(call) = survey.next_call() {
        let method = if call.method == "POST" { Method::POST } else { Method::GET };
        let body = call.body.map(|body| RawValue::from_string(body.to_owned())).transpose();
        let body = body.map_err(|error| Failure::local_failure("the request cannot be written", error))?;
        match client.request(method, &call.path, body).await {
            // A body that is no JSON differs as a null does.
            Ok(text) => survey.note_response(&call, &serde_json::from_str(&text).unwrap_or_default()),
            // A record of a list may be gone.
            Err(error) if error.context().and_then(|context| context.status) == Some(404) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(survey)
}

fn surveyed(survey: &Survey<'_>) -> String {
    let checked = format!("the responses of {} operations are compared", survey.checked().len());
    match survey.unchecked() {
        [] => checked,
        unchecked => format!("{checked}; nothing to call {} with", unchecked.join(", ")),
    }
}

fn differences(count: usize) -> Failure {
    let places = if count == 1 { "place" } else { "places" };
    Failure::new(exit::FAILED, format!("the responses differ from the API document in {count} {places}")).with_hint(
        "a newer client may know the API of this service; `ClientBuilder::on_unknown` reports what a program meets",
    )
}

/// Compares the clock of this machine with that of the responses so far.
fn clock(client: &Client) -> Result<((), String)> {
    let Some(service) = client.service_time() else {
        return Ok(((), "the service does not state its time".to_owned()));
    };
    let now = SystemTime::now();
    let skew = now.duration_since(service).or(service.duration_since(now)).unwrap_or_default();
    if skew > MAX_SKEW {
        let seconds = skew.as_secs();
        return Err(Failure::new(exit::FAILED, format!("the clocks differ by {seconds} s"))
            .with_hint("set the clock of this machine, such as with NTP"));
    }
    Ok(((), "it agrees with the service".to_owned()))
}

/// Checks that object storage responds, at the address that uploads get.
async fn storage(client: &Client) -> Result<((), String)> {
    let request = PresignRequest::new(UploadFolder::Samples, "text/plain", "inferstore-doctor.txt", 1);
    let failed = |problem: &str| {
        let hint = "it has an address of its own: can this machine reach it? `serve --storage-url` sets it";
        Failure::new(exit::NOT_REACHED, format!("object storage is not reached: {problem}")).with_hint(hint)
    };
    let body = serde_json::value::to_raw_value(&request)
        .map_err(|error| Failure::local_failure("the request cannot be written", error))?;
    let path = "/api-key/storage/upload/create-presigned-url";
    let response = client.request(Method::POST, path, Some(body)).await?;
    let response: Value = response.parse().unwrap_or_default();
    let url = response["data"]["download_url"].as_str().unwrap_or_default();
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    // Nothing is stored under that name: a store refuses, and a gateway in its place may do anything else.
    match client.download(url).limits(|limits| limits.deadline = Some(CONNECT_TIMEOUT)).bytes().await {
        Err(Error::File(error)) if matches!(error.status, None | Some(407 | 500..)) => {
            Err(failed(&error.message))
        }
        Err(Error::DeadlineReached(_)) => Err(failed("no response within 5 seconds")),
        Ok(_) => Err(failed("something else responds at its address")),
        _ => Ok(((), format!("{host} responds"))),
    }
}
