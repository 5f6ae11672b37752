//! `inferstore serve`.

mod local_profile;
mod log;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use inferstore::{API_KEY_VARIABLE, BASE_URL_VARIABLE};
use inferstore_console::call::quoted;
use inferstore_service::{
    Config, CorsOrigin, DatabaseUrl, InsufficientBalance, Money, Roles, S3Config, Service,
};
use serde_json::{Value, json};

use super::admin::DATA_DIR;
use super::console::{Beside, LOOPBACK, local_url};
use super::outputs::absolute;
use super::signals::Signals;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::settings::Session;
use crate::values::yes_or_no;
use log::{FILTER_VARIABLE, Log, LogFormat};

const FIRST_KEY_VARIABLE: &str = "INFERSTORE_FIRST_KEY";

/// The variable that holds the URL of the database, which other users could read in the list of processes.
const DATABASE_VARIABLE: &str = "INFERSTORE_DATABASE";

/// The standard variable of OpenTelemetry for the base URL of a collector.
const OTLP_ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The two responses that the API describes for a task that the balance does not cover.
const REFUSE: &str = "refuse";
const FAIL_TASK: &str = "fail-task";

const API_PORT: u16 = 8787;
const STORAGE_PORT: u16 = 8788;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The address on which the API and object storage listen; beyond loopback, put a proxy with TLS in front: clients
    /// send no key over plain http without --allow-insecure-http
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    host: IpAddr,
    /// The port of the API; 0 chooses a free one
    #[arg(long, value_name = "N", default_value_t = API_PORT)]
    port: u16,
    /// The port of object storage; 0 chooses a free one
    #[arg(long, value_name = "N", default_value_t = STORAGE_PORT)]
    storage_port: u16,
    /// The URL under which others reach object storage; part of every download URL [default: the address
    /// that it listens on]
    #[arg(long, value_name = "URL")]
    storage_url: Option<String>,
    /// Serve /health and /metrics on this port [default: not served]
    #[arg(long, value_name = "N")]
    operations_port: Option<u16>,
    /// The address of the port for operations
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    operations_host: IpAddr,
    /// Export a span of each API request and each attempt of a task to this OpenTelemetry collector, such as
    /// http://127.0.0.1:4318, by OTLP over HTTP; needs a build with the feature otel [env: OTEL_EXPORTER_OTLP_ENDPOINT]
    /// [default: none]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Let nodes outside this process fetch tasks from this port [default: not served]
    #[arg(long, value_name = "N")]
    nodes_port: Option<u16>,
    /// The address of the port for nodes
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    nodes_host: IpAddr,
    /// Serve the controls for testers on this port, with a token that is printed [default: not served]
    #[cfg(feature = "controls")]
    #[arg(long, value_name = "N")]
    controls_port: Option<u16>,
    /// The address of the port for controls
    #[cfg(feature = "controls")]
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    controls_host: IpAddr,
    /// Let web pages of this origin call the API, such as https://app.example, or * for all; may be repeated
    /// [default: none]
    #[arg(long, value_name = "URL")]
    cors_origin: Vec<CorsOrigin>,
    /// Let web pages of this origin alone upload and read files; may be repeated [default: all origins]
    #[arg(long, value_name = "URL")]
    storage_cors_origin: Vec<CorsOrigin>,
    /// Serve no console, the pages to look at the service in a browser
    #[arg(long, conflicts_with_all = ["console_port", "console_host"])]
    no_console: bool,
    /// The port of the console; 0 chooses a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    console_port: u16,
    /// The address of the port for the console
    #[arg(long, value_name = "ADDRESS", default_value_t = LOOPBACK)]
    console_host: IpAddr,
    /// The PostgreSQL that keeps everything but files, for any number of processes; INFERSTORE_DATABASE may hold
    /// the URL and its password instead [default: the data folder]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Roles of this process, with commas between: api, nodes, jobs [default: all]
    #[arg(long, value_name = "ROLES")]
    role: Option<Roles>,
    /// The bucket of an S3-compatible object store that keeps the bytes of files, such as
    /// 's3://bucket?endpoint=https://s3.example&region=us-east-1'; AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY hold its keys [default: the data folder]
    #[arg(long, value_name = "URL")]
    objects: Option<String>,
    /// Print the lifecycle rule that the bucket needs where it is versioned, and end
    #[arg(long, requires = "objects")]
    print_lifecycle: bool,
    /// The folder of the data, for its owner alone
    #[arg(long, value_name = "DIR", default_value = DATA_DIR)]
    data_dir: PathBuf,
    /// Start also when the file system of the data folder has no locks; a second service on the same folder
    /// would destroy it
    #[arg(long)]
    allow_unlocked_data_dir: bool,
    /// Keep nothing: the data folder is removed when the service ends; with --database only beside --objects
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,
    /// Number of tasks that run at once in this process [default: one for each core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Do not run this built-in model in this process: its tasks wait for a node; may be repeated
    #[arg(long, value_name = "MODEL")]
    exclude_model: Vec<String>,
    /// Number of requests that an account may send per second [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_requests_per_second: Option<u32>,
    /// Seconds that a start waits for a database or a bucket that cannot be reached yet
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    start_timeout: u64,
    /// Seconds that requests in progress and running tasks may take when the service ends
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    shutdown_timeout: u64,
    /// Days for which the files that models produce are kept, or `ever`; a policy, which stays in the database until a start
    /// sets another one [default of a new database: 30]
    #[arg(long, value_name = "DAYS", value_parser = |text: &str| time(text, 24))]
    output_retention: Option<Duration>,
    /// Days for which ended tasks are kept, or `ever`; a policy [default of a new database: ever]
    #[arg(long, value_name = "DAYS", value_parser = |text: &str| time(text, 24))]
    task_retention: Option<Duration>,
    /// Days for which movements of money without a task are kept one by one, before they become one sum, or `ever`; an
    /// account with at most 50 older ones keeps them; a policy [default of a new database: ever]
    #[arg(long, value_name = "DAYS", value_parser = |text: &str| time(text, 24))]
    movement_retention: Option<Duration>,
    /// Hours that a task waits for a node before it fails, unbilled, or `ever`; a policy [default of a new database:
    /// ever]
    #[arg(long, value_name = "HOURS", value_parser = |text: &str| time(text, 1))]
    queue_timeout: Option<Duration>,
    /// The price of storing one GiB for one day; a policy [default of a new database: 0.001]
    #[arg(long, value_name = "AMOUNT")]
    storage_price: Option<Money>,
    /// A file with limits and leases in JSON, such as {"lease": 60, "account_unfinished": 500}; docs/limits-and-settings.md
    /// names them
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Accounts make and revoke their own keys over the API and in the console; a policy [default of a new database: no]
    #[arg(long, value_name = "WHAT", value_parser = yes_or_no())]
    owners_manage_keys: Option<bool>,
    /// The balance of the first account
    #[arg(long, value_name = "AMOUNT", default_value = "100")]
    balance: Money,
    /// Policy for a task that the balance does not cover: the call is refused, or the task is created and fails at
    /// once
    #[arg(long, value_name = "WHAT", default_value = REFUSE, value_parser = [REFUSE, FAIL_TASK])]
    insufficient_balance: String,
    /// A file with the API key of the first account, which is not printed then [env: INFERSTORE_FIRST_KEY holds the key itself]
    /// [default: a random key]
    #[arg(long, value_name = "FILE")]
    first_key_file: Option<PathBuf>,
    /// Format of the lines of the log; INFERSTORE_LOG filters them
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Print one line of JSON when the service is ready, and nothing else on standard output; stores no profile
    #[arg(long)]
    ready_json: bool,
    /// Do not store the profile `local`
    #[arg(long)]
    no_profile: bool,
}

const EXAMPLES: &str = "\
Examples:
  inferstore serve
  inferstore serve --ephemeral
  inferstore serve --port 0 --storage-port 0 --ephemeral --ready-json
  inferstore serve --host 0.0.0.0 --storage-url https://files.example --first-key-file key.txt";

pub(crate) async fn execute(arguments: Arguments, session: Session) -> Result {
    let filter = session.environment.variable(FILTER_VARIABLE);
    let log = Log::start(filter, session.output.options.is_verbose, arguments.log_format)?;
    let result = serve(arguments, &session).await;
    log.flush();
    result
}

async fn serve(arguments: Arguments, session: &Session) -> Result {
    // Before the service starts, so that a signal during the start is not lost.
    let mut signals = Signals::new()?;
    // They hold keys, inputs and results: every file of this process is its owner's alone.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let first_key = first_key(&arguments, session)?;
    let objects = objects(arguments.objects.as_deref(), session)?;
    if let Some(objects) = objects.as_ref().filter(|_| arguments.print_lifecycle) {
        return session.output.data(objects.lifecycle());
    }
    if !arguments.host.is_loopback() {
        tracing::warn!(
            host = %arguments.host,
            "the service speaks plain HTTP: keys and files are readable on the way unless a proxy adds TLS; without \
             one, commands need --allow-insecure-http unless they call loopback"
        );
    }
    let is_ready_json = arguments.ready_json;
    let console_address =
        (!arguments.no_console).then(|| SocketAddr::new(arguments.console_host, arguments.console_port));
    let database = database(&arguments, session)?;
    check_roles(&arguments, database.as_ref())?;
    let has_database = database.is_some();
    let folder = arguments.data_dir.to_str().filter(|folder| *folder != DATA_DIR);
    let admin_option = folder.map_or_else(String::new, |folder| format!(" --data-dir {}", quoted(folder)));
    // The key of an ephemeral service is worth nothing when it ends.
    let stores_profile = !(is_ready_json || arguments.no_profile || arguments.ephemeral);
    let given_key = first_key.clone();
    let mut config = config(arguments, first_key, session)?;
    (config.database, config.objects) = (database, objects);
    let service = tokio::select! {
        started = Service::start(config) => started.map_err(failed_start)?,
        () = signals.next() => return Ok(()),
    };
    // A process without the API has nothing to look at.
    let console_address = console_address.filter(|_| !service.base_url().is_empty());
    let console = beside(&service, console_address, session).await;
    let console_url = console.as_ref().map(|beside| beside.console.url());
    // A key that was given is known, and stays out of the system log.
    let drawn_key = service.api_key().filter(|_| given_key.is_none());
    let printed = match is_ready_json {
        true => session.output.data(ready(&service, drawn_key, console_url).to_string()),
        false => print_addresses(&service, drawn_key, console_url, &session.output),
    };
    if let Err(failure) = printed {
        end(console).await;
        return Err(failure);
    }
    let key = service.api_key().map(str::to_owned).or(given_key);
    if key.is_none() && !is_ready_json && !service.base_url().is_empty() {
        session.note(format!(
            "the key was shown at the first start; a new one: `inferstore admin key add demo{admin_option} -q`"
        ));
    }
    if let Err(error) = service.api_key_shown().await {
        tracing::warn!(%error, "the next start prints another API key");
    }
    let store_profile = async {
        if stores_profile && !service.base_url().is_empty() {
            let data_dir = (!has_database).then(|| absolute(service.data_folder()).display().to_string());
            let stored = local_profile::store(&local_url(&service), key, data_dir, session).await;
            session.note(local_profile::next_step(stored, session));
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = signals.next() => {}
        () = store_profile => {}
    }
    tracing::info!("the service ends: requests in progress are finished");
    end(console).await;
    tokio::select! {
        () = service.shutdown() => Ok(()),
        () = signals.next_deliberate() => {
            Err(Failure::new(crate::exit::FAILED, "requests in progress were cut off")
                .with_hint("one Ctrl-C shuts down cleanly; wait for it"))
        }
    }
}

/// The console beside the service. The service runs without one, too.
async fn beside<'a>(
    service: &'a Service,
    address: Option<SocketAddr>,
    session: &Session,
) -> Option<Beside<'a>> {
    let console = Beside::start(service, address?, session).await;
    console.inspect_err(|error| tracing::warn!(%error, "there is no console")).ok()
}

async fn end(console: Option<Beside<'_>>) {
    if let Some(console) = console {
        console.end().await;
    }
}

fn failed_start(error: inferstore_service::Error) -> Failure {
    let code = if error.is_setting() { crate::exit::USAGE } else { crate::exit::FAILED };
    Failure::new(code, error.to_string()).or_hint(error.hint())
}

/// Returns where the service is and, once, the key that was drawn for the first account.
fn ready(service: &Service, drawn_key: Option<&str>, console_url: Option<&str>) -> Value {
    let mut ready = json!({
        "event": "ready",
        "base_url": local_url(service),
        "storage_url": service.storage_url(),
        "api_key": drawn_key,
        "console_url": console_url,
        "data_dir": absolute(service.data_folder()),
        "pid": std::process::id(),
    });
    for (name, value) in further_listeners(service) {
        ready[name] = json!(value);
    }
    ready
}

/// Prints for a person what [`ready`] returns for a program.
fn print_addresses(service: &Service, key: Option<&str>, console: Option<&str>, output: &Output) -> Result {
    if service.base_url().is_empty() {
        output.note("this process serves no API");
    } else {
        output.data(format!("export {BASE_URL_VARIABLE}={}", local_url(service)))?;
    }
    if let Some(key) = key {
        output.data(format!("export {API_KEY_VARIABLE}={key}"))?;
    }
    output.note(format!("object storage: {}", service.storage_url()));
    for (name, value) in further_listeners(service) {
        // A tester's program needs both lines of the controls.
        if name.starts_with("controls") {
            output.data(format!("export INFERSTORE_{}={value}", name.to_uppercase()))?;
        } else {
            output.note(format!("{}: {value}", name.replace('_', " ")));
        }
    }
    if let Some(url) = console {
        output.note(format!("console: {url}"));
    }
    output.note(format!("data: {}; Ctrl-C ends the service", service.data_folder().display()));
    Ok(())
}

/// The listeners that are off by default, and the token of the controls.
fn further_listeners(service: &Service) -> Vec<(&'static str, String)> {
    let mut listeners = Vec::new();
    listeners.extend(service.operations_url().map(|url| ("operations_url", url.to_owned())));
    listeners.extend(service.nodes_url().map(|url| ("nodes_url", url.to_owned())));
    #[cfg(feature = "controls")]
    if let Ok(controls) = service.controls() {
        listeners.push(("controls_url", controls.url().to_owned()));
        listeners.push(("controls_token", controls.token().to_owned()));
    }
    listeners
}

/// The key of the first account. Never that of the client, which may be the key of another service.
fn first_key(arguments: &Arguments, session: &Session) -> Result<Option<String>> {
    if session.global.api_key.is_some() {
        return Err(Failure::usage("--api-key is the key of a client; serve has no use for it")
            .with_hint("--first-key-file names a file with the key of the first account"));
    }
    let environment = &session.environment;
    let Some(file) = &arguments.first_key_file else {
        return Ok(environment.variable(FIRST_KEY_VARIABLE).map(str::to_owned));
    };
    let file = environment.folder.join(file);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::usage(format!("the key file {} cannot be read: {error}", file.display()))
            .with_hint("write the API key into it, on one line")
    })?;
    Ok(Some(text.trim().to_owned()))
}

fn database(arguments: &Arguments, session: &Session) -> Result<Option<DatabaseUrl>> {
    if arguments.ephemeral && arguments.database.is_some() && arguments.objects.is_none() {
        let message = "--database keeps the name of the folder with its files, which --ephemeral removes";
        return Err(Failure::usage(message).with_hint("name a bucket for the files with --objects"));
    }
    if arguments.ephemeral && arguments.database.is_none() {
        return Ok(None);
    }
    database_or_variable(arguments.database.as_deref(), session)
}

/// The database of an argument or of the environment. A refused URL is not shown: it may hold a password. An empty
/// variable is refused: a service that lost its database would begin another one.
pub(super) fn database_or_variable(argument: Option<&str>, session: &Session) -> Result<Option<DatabaseUrl>> {
    if argument.is_none() && session.environment.is_empty_variable(DATABASE_VARIABLE) {
        return Err(Failure::usage(format!("{DATABASE_VARIABLE} is empty"))
            .with_hint("set it to the URL of the database, or remove it to use the data folder"));
    }
    let variable = || Some((DATABASE_VARIABLE, session.environment.variable(DATABASE_VARIABLE)?));
    let Some((name, url)) = argument.map(|url| ("--database", url)).or_else(variable) else {
        return Ok(None);
    };
    url.parse().map(Some).map_err(|error| Failure::usage(format!("{name}: {error}")))
}

/// The collector of an argument, or of the environment, which a build without export ignores: it is for all programs.
fn otlp_endpoint(argument: Option<String>, session: &Session) -> Option<String> {
    let variable = || session.environment.variable(OTLP_ENDPOINT_VARIABLE).map(str::to_owned);
    let endpoint = argument.or_else(|| variable().filter(|_| cfg!(feature = "otel")));
    if endpoint.is_none() && variable().is_some() {
        tracing::warn!("{OTLP_ENDPOINT_VARIABLE} is ignored: this build has no OpenTelemetry export");
    }
    endpoint
}

pub(super) fn objects(url: Option<&str>, session: &Session) -> Result<Option<S3Config>> {
    let Some(url) = url else { return Ok(None) };
    let variable = |name| session.environment.variable(name).unwrap_or_default();
    let config = S3Config::new(url, variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
    config.map(Some).map_err(|error| Failure::usage(error.to_string()))
}

fn config(arguments: Arguments, first_key: Option<String>, session: &Session) -> Result<Config> {
    let mut config = match arguments.ephemeral {
        true => Config::ephemeral(),
        false => Config::folder(session.here(&arguments.data_dir)),
    };
    config.api = SocketAddr::new(arguments.host, arguments.port);
    config.storage = SocketAddr::new(arguments.host, arguments.storage_port);
    config.operations = arguments.operations_port.map(|port| (arguments.operations_host, port).into());
    config.otlp_endpoint = otlp_endpoint(arguments.otlp_endpoint, session);
    config.nodes = arguments.nodes_port.map(|port| (arguments.nodes_host, port).into());
    #[cfg(feature = "controls")]
    if let Some(port) = arguments.controls_port {
        let controls = config.controls.get_or_insert_default();
        controls.address = SocketAddr::new(arguments.controls_host, port);
    }
    config.storage_url = arguments.storage_url;
    config.cors_origins = arguments.cors_origin;
    if !arguments.storage_cors_origin.is_empty() {
        config.storage_origins = arguments.storage_cors_origin;
    }
    config.allow_unlocked_folder = arguments.allow_unlocked_data_dir;
    config.request_rate = arguments.max_requests_per_second.and_then(NonZeroU32::new);
    config.shutdown_timeout = Duration::from_secs(arguments.shutdown_timeout);
    config.start_timeout = Duration::from_secs(arguments.start_timeout);
    config.output_retention = arguments.output_retention;
    config.task_retention = arguments.task_retention;
    config.movement_retention = arguments.movement_retention;
    config.queue_timeout = arguments.queue_timeout;
    config.storage_price_per_gib_day = arguments.storage_price;
    config.owners_manage_keys = arguments.owners_manage_keys;
    config.roles = arguments.role.unwrap_or_default();
    if arguments.insufficient_balance == FAIL_TASK {
        config.insufficient_balance = InsufficientBalance::FailTask;
    }
    config.first_account.api_key = first_key;
    config.first_account.balance = arguments.balance;
    config.excluded_models.extend(arguments.exclude_model);
    config.model_process = super::model_worker::command();
    if let Some(workers) = arguments.workers {
        config.workers = workers;
    }
    let Some(file) = arguments.limits else { return Ok(config) };
    let text = std::fs::read_to_string(session.here(&file)).map_err(|error| {
        Failure::usage(format!("the file {} of the limits cannot be read: {error}", file.display()))
    })?;
    config.with_limits(&text).map_err(failed_start)
}

/// Reads a number of so many hours, or `ever`.
fn time(text: &str, hours: u64) -> Result<Duration, String> {
    if text == "ever" {
        return Ok(Duration::MAX);
    }
    let count: u32 = text.parse().map_err(|_| "a whole number up to 4294967295 is expected, or `ever`")?;
    Ok(Duration::from_hours(u64::from(count) * hours))
}

/// Refuses settings that have no effect in this process.
fn check_roles(arguments: &Arguments, database: Option<&DatabaseUrl>) -> Result {
    let without_port = [
        (arguments.operations_port.is_none(), arguments.operations_host, "operations"),
        (arguments.nodes_port.is_none(), arguments.nodes_host, "nodes"),
        #[cfg(feature = "controls")]
        (arguments.controls_port.is_none(), arguments.controls_host, "controls"),
    ];
    if let Some((.., name)) = without_port.iter().find(|(has_none, host, _)| *has_none && *host != LOOPBACK) {
        return Err(Failure::usage(format!("--{name}-host does nothing without --{name}-port"))
            .with_hint(format!("add --{name}-port, or leave --{name}-host out")));
    }
    let Some(roles) = arguments.role else { return Ok(()) };
    if database.is_none() && roles != Roles::default() {
        let message = "--role leaves something to other processes, and a data folder has one process";
        return Err(Failure::usage(message)
            .with_hint(format!("name the database that they share with --database or {DATABASE_VARIABLE}")));
    }
    let unused = [
        (roles.nodes, arguments.nodes_port.is_some(), "--nodes-port", "nodes"),
        (roles.nodes, arguments.workers.is_some(), "--workers", "nodes"),
        (roles.nodes, !arguments.exclude_model.is_empty(), "--exclude-model", "nodes"),
        (roles.nodes, arguments.nodes_host != LOOPBACK, "--nodes-host", "nodes"),
        (roles.api, arguments.host != LOOPBACK, "--host", "api"),
        (roles.api, arguments.port != API_PORT, "--port", "api"),
        (roles.api, arguments.storage_port != STORAGE_PORT, "--storage-port", "api"),
        (roles.api, !arguments.cors_origin.is_empty(), "--cors-origin", "api"),
        (roles.api, !arguments.storage_cors_origin.is_empty(), "--storage-cors-origin", "api"),
        (roles.api, arguments.console_port != 0, "--console-port", "api"),
        (roles.api, arguments.insufficient_balance != REFUSE, "--insufficient-balance", "api"),
        (roles.api, arguments.max_requests_per_second.is_some(), "--max-requests-per-second", "api"),
        (roles.api, arguments.first_key_file.is_some(), "--first-key-file", "api"),
    ];
    let unused = unused.into_iter().find(|(has_role, is_given, ..)| !has_role && *is_given);
    unused.map_or(Ok(()), |(_, _, flag, role)| {
        let message = format!("{flag} does nothing in a process without the role {role}");
        Err(Failure::usage(message).with_hint(format!("add the role {role}, or leave {flag} out")))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Serve {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn refused(line: &str, database: Option<&str>) -> Option<String> {
        let words = ["serve"].into_iter().chain(line.split_whitespace());
        let arguments = Serve::try_parse_from(words).ok()?.arguments;
        let database = database.and_then(|url| url.parse().ok());
        check_roles(&arguments, database.as_ref()).err().map(|failure| failure.headline)
    }

    #[test]
    fn a_flag_that_does_nothing_is_refused_with_the_reason() {
        let shared = Some("postgres://host/name");
        for (line, flag) in [
            ("--role api,jobs --nodes-port 1", "--nodes-port"),
            ("--role api --workers 1", "--workers"),
            ("--role jobs --exclude-model face-mesh", "--exclude-model"),
            ("--role nodes --cors-origin *", "--cors-origin"),
            ("--role jobs --storage-cors-origin *", "--storage-cors-origin"),
            ("--role jobs --host 0.0.0.0", "--host"),
            ("--role jobs --port 8000", "--port"),
            ("--role nodes --storage-port 5", "--storage-port"),
            ("--operations-host 0.0.0.0", "--operations-host"),
            ("--nodes-host ::", "--nodes-host"),
            ("--role nodes --max-requests-per-second 1", "--max-requests-per-second"),
            ("--role jobs --first-key-file key.txt", "--first-key-file"),
        ] {
            let message = refused(line, shared);
            assert!(message.as_ref().is_some_and(|message| message.starts_with(flag)), "{line}: {message:?}");
        }
        for line in
            ["", "--nodes-port 1 --workers 1", "--role api --cors-origin *", "--role nodes --workers 0"]
        {
            assert_eq!(refused(line, shared), None, "{line}");
        }
        assert!(refused("--role api", None).is_some_and(|message| message.contains("--role")));
        assert_eq!(refused("--role api,nodes,jobs", None), None);
    }

    #[test]
    fn a_policy_is_a_number_or_has_no_end() {
        assert_eq!(time("30", 24), Ok(Duration::from_hours(720)));
        assert_eq!(time("6", 1), Ok(Duration::from_hours(6)));
        assert_eq!(time("ever", 24), Ok(Duration::MAX));
        assert!(time("-1", 24).is_err() && time("never", 1).is_err());
    }
}
