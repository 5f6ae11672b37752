//! Tests that the pages state the defaults of the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use super::wiring::LEASE_FILES;
use crate::api::MAX_HISTORY_PAGE;
use crate::config::{Config, FirstAccount, Limits};
use crate::files::{MAX_FILE, MAX_FORM_FILE, MAX_KEY as MAX_OBJECT_KEY};
use crate::operator::MAX_KEYS;
use crate::policies::Policies;
use crate::queue::{InsufficientBalance, KEY_RETENTION, MAX_KEY};
use crate::{Error, Result, Service};

fn bytes(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        ..=120 => format!("{seconds} s"),
        172_800.. if seconds.is_multiple_of(24 * 3_600) => format!("{} days", seconds / 24 / 3_600),
        _ if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        _ => format!("{} min", seconds / 60),
    }
}

fn time_or_ever(limit: Option<Duration>) -> String {
    limit.map_or_else(|| "ever".to_owned(), time)
}

fn count(count: impl Into<u64>) -> String {
    let digits = count.into().to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}

fn unset<T: Debug>(setting: Option<&T>, word: &str) -> String {
    setting.map_or_else(|| word.to_owned(), |value| format!("{value:?}"))
}

fn limits(limits: Limits) -> Vec<(&'static str, String)> {
    // The pattern names every field, so that a new field cannot be forgotten.
    let Limits {
        body,
        max_requests,
        unsigned_forms,
        outputs,
        output_bytes,
        max_connections,
        head_timeout,
        keep_alive,
        body_time,
        upload_idle,
        response_timeout,
        health_timeout,
        models_page,
        files_page,
        run,
        pixels,
        memory,
        memory_of_all_runs,
        input,
        account_unfinished,
        account_running,
        account_targets,
    } = limits;
    vec![
        ("Limits::body", bytes(body as u64)),
        ("Limits::max_requests", count(max_requests as u64)),
        ("Limits::unsigned_forms", count(unsigned_forms as u64)),
        ("Limits::outputs", count(outputs)),
        ("Limits::output_bytes", bytes(output_bytes)),
        ("Limits::max_connections", count(max_connections as u64)),
        ("Limits::head_timeout", time(head_timeout)),
        ("Limits::keep_alive", time(keep_alive)),
        ("Limits::body_time", time(body_time)),
        ("Limits::upload_idle", time(upload_idle)),
        ("Limits::response_timeout", time(response_timeout)),
        ("Limits::health_timeout", time(health_timeout)),
        ("Limits::models_page", count(models_page)),
        ("Limits::files_page", count(files_page)),
        ("Limits::run", time(run)),
        ("Limits::pixels", count(pixels)),
        ("Limits::memory", bytes(memory)),
        ("Limits::memory_of_all_runs", bytes(memory_of_all_runs)),
        ("Limits::input", bytes(input as u64)),
        ("Limits::account_unfinished", count(account_unfinished)),
        ("Limits::account_running", count(account_running)),
        ("Limits::account_targets", count(account_targets)),
    ]
}

fn settings(config: Config, policies: Policies) -> Vec<(&'static str, String)> {
    let Config {
        data: _,
        database,
        roles: _,
        objects,
        api: _,
        storage: _,
        operations,
        otlp_endpoint,
        nodes,
        #[cfg(feature = "controls")]
        controls,
        storage_url,
        storage_origins,
        orphan_retention,
        output_retention: _,
        first_account: FirstAccount { username, balance, free_balance, api_key },
        insufficient_balance,
        target_life,
        storage_price_per_gib_day: _,
        owners_manage_keys: _,
        storage_billing_interval,
        workers: _,
        model_process,
        excluded_models,
        lease,
        lease_attempts,
        lease_grace,
        queue_timeout: _,
        task_retention: _,
        movement_retention: _,
        limits: _,
        request_rate,
        cors_origins,
        start_timeout,
        shutdown_timeout,
        allow_unlocked_folder,
        seed,
    } = config;
    let refuse = match insufficient_balance {
        InsufficientBalance::Refuse => "refuse",
        InsufficientBalance::FailTask => "fail-task",
    };
    let none_of = |is_empty: bool| if is_empty { "none" } else { "some" }.to_owned();
    vec![
        ("Config::data", "inferstore-data".to_owned()),
        ("Config::api", "8787".to_owned()),
        ("Config::storage", "8788".to_owned()),
        ("Config::roles", "all".to_owned()),
        ("Config::workers", "one a core".to_owned()),
        ("Config::database", unset(database.as_ref(), "none")),
        ("Config::objects", unset(objects.as_ref(), "none")),
        ("Config::operations", unset(operations.as_ref(), "none")),
        ("Config::otlp_endpoint", unset(otlp_endpoint.as_ref(), "none")),
        ("Config::nodes", unset(nodes.as_ref(), "none")),
        #[cfg(feature = "controls")]
        ("Config::controls", unset(controls.as_ref(), "none")),
        #[cfg(not(feature = "controls"))]
        ("Config::controls", "none".to_owned()),
        ("Config::storage_url", unset(storage_url.as_ref(), "its address")),
        ("Config::storage_origins", if storage_origins.len() == 1 { "all" } else { "other" }.to_owned()),
        ("Config::orphan_retention", time(orphan_retention)),
        ("Config::output_retention", time_or_ever(policies.output_retention)),
        ("Config::task_retention", time_or_ever(policies.task_retention)),
        ("Config::movement_retention", time_or_ever(policies.movement_retention)),
        ("Config::queue_timeout", time_or_ever(policies.queue_timeout)),
        ("Config::storage_price_per_gib_day", policies.storage_price_per_gib_day.to_string()),
        ("Config::owners_manage_keys", if policies.owners_manage_keys { "yes" } else { "no" }.to_owned()),
        ("FirstAccount::username", username),
        ("FirstAccount::balance", balance.to_string()),
        ("FirstAccount::free_balance", free_balance.to_string()),
        ("FirstAccount::api_key", unset(api_key.as_ref(), "random")),
        ("Config::insufficient_balance", refuse.to_owned()),
        ("Config::target_life", time(target_life)),
        ("Config::storage_billing_interval", time(storage_billing_interval)),
        ("Config::model_process", unset(model_process.as_ref(), "none")),
        ("Config::excluded_models", none_of(excluded_models.is_empty())),
        ("Config::lease", time(lease)),
        ("Config::lease_attempts", lease_attempts.to_string()),
        ("Config::lease_grace", time(lease_grace)),
        ("Config::request_rate", unset(request_rate.as_ref(), "no limit")),
        ("Config::cors_origins", none_of(cors_origins.is_empty())),
        ("Config::start_timeout", time(start_timeout)),
        ("Config::shutdown_timeout", time(shutdown_timeout)),
        ("Config::allow_unlocked_folder", if allow_unlocked_folder { "taken" } else { "refused" }.to_owned()),
        ("Config::seed", unset(seed.as_ref(), "no")),
    ]
}

fn constants() -> Vec<(&'static str, String)> {
    vec![
        ("page of a history", count(MAX_HISTORY_PAGE)),
        ("valid keys of one account", count(MAX_KEYS as u64)),
        ("new keys of one account in 24 hours", count(MAX_KEYS as u64)),
        ("`Idempotency-Key`", count(MAX_KEY as u64)),
        ("memory for an `Idempotency-Key`", time(KEY_RETENTION)),
        ("file", bytes(MAX_FILE)),
        ("file that is uploaded as a form; larger ones are put", bytes(MAX_FORM_FILE)),
        ("name of a file, with its folder", count(MAX_OBJECT_KEY as u64)),
        ("uploads in progress", count(Config::ephemeral().limits.max_requests as u64)),
        ("output files that a node sends at once for one task", count(LEASE_FILES as u64)),
        #[cfg(feature = "postgres")]
        ("connections of a process to it", count(crate::database::MAX_CONNECTIONS as u64)),
    ]
}

fn read(page: &str) -> Result<String> {
    let path = format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).map_err(|cause| Error::new("reading a page", cause))
}

#[tokio::test]
async fn the_page_of_limits_says_what_the_program_does() -> Result<()> {
    let service = Service::start(Config::ephemeral()).await?;
    let policies = Policies::read(&*service.database).await?;
    service.shutdown().await;
    let pictures = read("docs/pictures.md")?;
    let price = format!("storage costs {} a GiB and day", policies.storage_price_per_gib_day);
    let retention = format!("| an output | {},", time_or_ever(policies.output_retention));
    assert!(pictures.contains(&price) && pictures.contains(&retention), "{price}; {retention}");
    let expected: BTreeMap<_, _> = limits(Config::ephemeral().limits)
        .into_iter()
        .chain(settings(Config::ephemeral(), policies))
        .chain(constants())
        .collect();
    let page = read("docs/limits-and-settings.md")?;
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, default, by, _] = cells[..] else {
            return Err(Error::new("reading the page", format!("no row of four cells: {row}")));
        };
        let fields = by.split('`').skip(1).step_by(2).filter(|code| code.contains("::"));
        // Fractions of another limit have no default of their own.
        let names = fields.filter(|_| default != "a quarter" && !by.starts_with("as many as")).chain([name]);
        for name in names {
            match expected.get(name) {
                Some(expected) => {
                    if default != expected {
                        wrong.push(format!("{expected} is the default of {row}"));
                    }
                    found.insert(name);
                }
                None if name.contains("::") => wrong.push(format!("there is no {name}")),
                None => {}
            }
        }
    }
    let missing: Vec<_> = expected.keys().filter(|name| !found.contains(**name)).collect();
    assert!(wrong.is_empty() && missing.is_empty(), "{wrong:#?}; the page leaves out {missing:?}");
    Ok(())
}

fn quotes() -> Vec<(&'static str, String)> {
    let Config { lease, lease_attempts, target_life, start_timeout, limits, .. } = Config::ephemeral();
    let Limits { outputs, keep_alive, memory, account_unfinished, account_running, account_targets, .. } =
        limits;
    let [targets, unfinished, running] = [account_targets, account_unfinished, account_running].map(count);
    let [file, form_file, output] = [MAX_FILE, MAX_FORM_FILE, limits.output_bytes].map(bytes);
    let [hours, minutes] = [KEY_RETENTION.as_secs() / 3_600, target_life.as_secs() / 60];
    let idle = keep_alive.as_secs();
    let attempts = if lease_attempts == 5 { "five" } else { "other" };
    vec![
        ("CHANGELOG.md", format!("same `Idempotency-Key` within {hours} hours")),
        ("docs/safe-creates.md", format!("For at least {hours} hours, the same account")),
        ("docs/not-promised.md", format!("`Idempotency-Key`, for {hours} hours")),
        ("docs/bucket.md", format!("at most {targets} unused targets, for {minutes} minutes each")),
        ("docs/moving.md", format!("until they expire ({minutes} minutes)")),
        ("docs/not-promised.md", format!("reuse of an upload target | {minutes} minutes.")),
        (
            "docs/not-promised.md",
            format!("{unfinished} unfinished tasks, {running} running tasks, and {targets} unused"),
        ),
        ("docs/not-promised.md", format!("at most {outputs} files and {output} a run")),
        ("docs/not-promised.md", format!("closed after {idle} s, announced by `Keep-Alive: timeout={idle}`")),
        ("docs/not-promised.md", format!("{attempts} leases expired")),
        ("docs/node-protocol.md", format!("at most {outputs} files of {output} together")),
        ("docs/troubleshooting.md", format!("the account has {running} running tasks")),
        ("docs/deployment.md", format!("the {idle} seconds after which the service closes")),
        ("docs/deployment.md", format!("The largest file is {file};")),
        ("docs/capacity.md", format!("{file} of disk for each upload in progress")),
        ("docs/concepts.md", format!("Files up to {form_file} go there as a form")),
        ("docs/models.md", format!("within the {} of a run", bytes(memory))),
        ("docs/cluster.md", format!("`--start-timeout` ({})", time(start_timeout))),
        ("docs/cluster.md", format!("a lease ({})", time(lease))),
        #[cfg(feature = "postgres")]
        ("docs/capacity.md", format!("keeps up to {} connections", crate::database::MAX_CONNECTIONS)),
        #[cfg(feature = "postgres")]
        ("docs/monitoring.md", format!("each process has {} connections", crate::database::MAX_CONNECTIONS)),
    ]
}

#[test]
fn every_page_that_quotes_a_default_quotes_that_of_the_program() -> Result<()> {
    let mut missing = Vec::new();
    for (page, quote) in quotes() {
        let text = read(page)?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !text.contains(&quote) {
            missing.push((page, quote));
        }
    }
    assert!(missing.is_empty(), "the pages do not say: {missing:#?}");
    Ok(())
}
