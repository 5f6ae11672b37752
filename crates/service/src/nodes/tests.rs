//! Tests of the dispatcher and of the local node's slots in a running service.

use std::time::Duration;

use inferstore_wire::until;
use serde_json::{Value, json};

use super::dispatcher::DispatchedTask;
use super::inputs::{FAILS_ONCE, NEVER_RESPONDS, RESPONDS_LATE};
use crate::accounts::{AccountId, Scope};
use crate::database::conformance::RULES;
use crate::operator::TaskDetail;
use crate::queue::{Claim, Ending, InsufficientBalance, LeaseRules, NewTask, NodeEnd, Slot, Status, Task};
use crate::{Config, Credit, Error, Service};

const MODEL: &str = "color-extraction";

async fn create(service: &Service, account: AccountId, url: &str) -> Result<String, Error> {
    let task = queue(service, account, json!({ "input": url })).await?;
    service.dispatcher.task_queued(MODEL);
    Ok(task)
}

async fn queue(service: &Service, account: AccountId, input: Value) -> Result<String, Error> {
    queue_for(service, MODEL, account, input).await
}

pub(super) async fn queue_for(
    service: &Service,
    model: &str,
    account: AccountId,
    input: Value,
) -> Result<String, Error> {
    let unknown = || Error::new("creating a task", "there is no such model");
    let published = service.database.published(model).await?.ok_or_else(unknown)?;
    let (model, version) = (&published.model, &published.version);
    let task = NewTask {
        id: service.random.uuid()?,
        account,
        model: model.summary.id.clone(),
        version: version.id,
        publisher: model.owner,
        price: model.summary.price,
        input: input.to_string(),
        key: None,
        traceparent: None,
        spending: None,
    };
    service.database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, service.clock.now()).await?;
    Ok(task.id)
}

fn slot(node: &str) -> Slot {
    Slot {
        node: node.to_owned(),
        models: [MODEL.to_owned()].into(),
        max_running: u32::MAX,
        passed_over: Vec::new(),
    }
}

async fn until_failed(service: &Service, account: AccountId, task: &str) {
    let database = &service.database;
    let is_failed = |task: Option<Task>| task.is_some_and(|task| task.status == Status::Failed);
    until("the task fails", || async { database.task(account, task).await.is_ok_and(is_failed) }).await;
}

#[tokio::test]
async fn the_end_of_a_task_and_the_claim_of_the_next_one_share_a_commit() -> Result<(), Error> {
    const TASKS: usize = 30;
    let mut config = Config::ephemeral();
    config.workers = 1;
    let service = Service::start(config).await?;
    let customer = account(&service, "customer").await?;
    let before = service.database.commits();
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        tasks.push(queue(&service, customer, json!({ "input": 1 })).await?);
    }
    service.dispatcher.look_for_all();
    for task in &tasks {
        until_failed(&service, customer, task).await;
    }
    let commits = service.database.commits() - before;
    // One commit for each create and one for each result, plus writes of jobs at the start. Without group commit there
    // would be nearly three for each task.
    assert!(commits < TASKS * 9 / 4, "{commits} commits for {TASKS} tasks");
    service.shutdown().await;
    Ok(())
}

fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

#[tokio::test]
async fn a_task_claimed_during_the_shutdown_does_not_outlive_the_service() -> Result<(), Error> {
    for _ in 0..12 {
        let mut config = Config::ephemeral();
        config.workers = 1;
        config.shutdown_timeout = Duration::ZERO;
        let service = Service::start(config).await?;
        let nodes = std::sync::Arc::clone(&service.nodes);
        let customer = account(&service, "customer").await?;
        let first = create(&service, customer, "ftp://example.com/is-refused-at-once").await?;
        until_failed(&service, customer, &first).await;
        let before = service.dispatcher.claims();
        create(&service, customer, NEVER_RESPONDS).await?;
        while service.dispatcher.claims() == before {
            tokio::task::yield_now().await;
        }
        pause();
        let runtime = tokio::runtime::Handle::current();
        let ended = tokio::task::spawn_blocking(move || runtime.block_on(service.shutdown()));
        pause();
        ended.await.map_err(|cause| Error::new("shutting down", cause))?;
        assert_eq!(std::sync::Arc::strong_count(&nodes), 1, "a run goes on");
    }
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn the_folder_of_a_run_lies_in_the_data_folder_also_in_a_temporary_one() -> Result<(), Error> {
    let keeping = |cause| Error::keeping("keeping a note", cause);
    let notes = tempfile::tempdir().map_err(keeping)?;
    let note = notes.path().join("requests");
    let script =
        r#"echo '{"ready": true}'; while read -r line; do echo "$line" > "$0"; echo '{"output": {}}'; done"#;
    let mut config = Config::ephemeral();
    config.model_process = Some(vec!["/bin/sh".into(), "-c".into(), script.into(), note.clone().into()]);
    let service = Service::start(config).await?;
    let customer = account(&service, "customer").await?;
    let task = queue(&service, customer, json!({ "input": 1 })).await?;
    service.dispatcher.task_queued(MODEL);
    until_failed(&service, customer, &task).await;
    let request = std::fs::read_to_string(&note).map_err(keeping)?;
    let request: Value = serde_json::from_str(&request).unwrap_or_default();
    let folder = std::path::Path::new(request["folder"].as_str().unwrap_or_default());
    assert!(folder.starts_with(service.data_folder()), "{request}");
    assert!(!folder.exists(), "its run is over");
    service.shutdown().await;
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn long_tasks_of_one_account_leave_a_worker_to_active_accounts() -> Result<(), Error> {
    const LONG: &str = r#"echo '{"ready": true}'; while read -r line; do
        case "$line" in *'"input":2'*) sleep 600;; esac; echo '{"output": {}}'; done"#;
    let mut config = Config::ephemeral();
    config.workers = 2;
    config.shutdown_timeout = Duration::ZERO;
    config.model_process = Some(vec!["/bin/sh".into(), "-c".into(), LONG.into()]);
    let service = Service::start(config).await?;
    let (anna, bob) = (account(&service, "anna").await?, account(&service, "bob").await?);
    let run = async |account, input: u32| {
        let task = queue(&service, account, json!({ "input": input })).await?;
        service.dispatcher.task_queued(MODEL);
        Ok::<_, Error>(task)
    };
    for _ in 0..3 {
        let short = run(bob, 1).await?;
        let ended = tokio::time::timeout(Duration::from_secs(30), until_failed(&service, bob, &short)).await;
        ended.map_err(|_| Error::new("waiting for a short task", "long ones have all workers"))?;
        for _ in 0..4 {
            run(anna, 2).await?;
        }
        let computing = async || {
            let depths = service.database.depths().await?;
            Ok::<_, Error>(depths.into_iter().any(|(status, tasks)| status == Status::Computing && tasks > 0))
        };
        until("a long task computes", async || computing().await.is_ok_and(|computing| computing)).await;
    }
    service.shutdown().await;
    Ok(())
}

pub(super) async fn account(service: &Service, name: &str) -> Result<AccountId, Error> {
    service.add_account(name, Scope::Personal).await?;
    service.credit(name, Credit::Paid("1000".parse().unwrap_or_default())).await?;
    let account = service.database.account(name).await?;
    Ok(account.ok_or_else(|| Error::new("adding an account", "it is not there"))?.id)
}

#[tokio::test]
async fn waiting_nodes_cause_no_queries_and_a_task_causes_one_claim() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.workers = 0;
    let service = Service::start(config).await?;
    service.add_node_key("lab").await?;
    let models = [MODEL.to_owned()];
    let mut waiting = tokio::task::JoinSet::new();
    for index in 0..100 {
        let node = format!("node-{index}");
        service.database.register(&node, Some("lab"), &models, service.clock.now()).await?;
        for _ in 0..4 {
            let (nodes, node, models) = (std::sync::Arc::clone(&service.nodes), node.clone(), models.clone());
            waiting.spawn(async move {
                let slot =
                    Slot { node, models: models.into(), max_running: u32::MAX, passed_over: Vec::new() };
                nodes.dispatcher.remote_task(slot, true).await
            });
        }
    }
    until("all slots wait", || async { service.dispatcher.idle_slots() >= 400 }).await;
    let before = service.dispatcher.claims();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let customer = account(&service, "customer").await?;
    let task = create(&service, customer, "https://example.com/a.png").await?;
    let first = waiting.join_next().await;
    let Some(Ok(Some(DispatchedTask::Remote(lease)))) = first else {
        return Err(Error::new("waiting for a task", "there is none"));
    };
    assert_eq!(lease.task, task);
    let claims = service.dispatcher.claims() - before;
    assert!((1..=2).contains(&claims), "{claims} claims");
    waiting.shutdown().await;
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_node_that_waits_is_alive_also_after_the_clock_was_set_back() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.workers = 0;
    config.lease = Duration::from_millis(300);
    let service = Service::start(config).await?;
    service.add_node_key("lab").await?;
    service.database.register("node", Some("lab"), &[MODEL.to_owned()], service.clock.now()).await?;
    let slot = slot("node");
    let waiting = service.dispatcher.remote_task(slot, true);
    let seen_at = async || {
        let known = service.database.known_node("node", "lab").await?;
        Ok::<_, Error>(known.ok_or_else(|| Error::new("reading a node", "it is not there"))?.seen_at)
    };
    let is_seen = async {
        service.clock.advance(Duration::from_hours(1));
        while seen_at().await? < service.clock.now().before(service.nodes.lease) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        service.clock.set_ahead(0);
        let back = service.clock.now().after(service.nodes.lease);
        while service.clock.now() < back || seen_at().await? > service.clock.now() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, Error>(())
    };
    tokio::select! {
        _ = waiting => return Err(Error::new("waiting for a task", "there is none")),
        seen = tokio::time::timeout(Duration::from_secs(10), is_seen) => {
            seen.map_err(|cause| Error::new("waiting until the node is seen", cause))??;
        }
    }
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_slot_that_stops_waiting_gives_its_task_back() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.workers = 0;
    let service = Service::start(config).await?;
    service.add_node_key("lab").await?;
    service.database.register("node", Some("lab"), &[MODEL.to_owned()], service.clock.now()).await?;
    let customer = account(&service, "customer").await?;
    let slot = slot("node");
    for round in 0..20 {
        let task = create(&service, customer, "https://example.com/a.png").await?;
        let short = Duration::from_micros(100 * round);
        let mut got =
            tokio::time::timeout(short, service.dispatcher.remote_task(slot.clone(), true)).await.ok();
        if got.is_none() {
            let again = service.dispatcher.remote_task(slot.clone(), true);
            got = tokio::time::timeout(Duration::from_secs(10), again).await.ok();
        }
        let Some(Some(DispatchedTask::Remote(lease))) = got else {
            return Err(Error::new("waiting for a task", format!("round {round}: there is none")));
        };
        assert_eq!(lease.task, task, "round {round}");
        let ending = Ending::Output("{}".to_owned());
        service.database.finish("node", &lease.task, lease.attempt, &ending, service.clock.now()).await?;
    }
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn the_local_node_registers_again_when_the_database_does_not_know_it() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.workers = 1;
    config.lease = Duration::from_mins(10);
    let service = Service::start(config).await?;
    let customer = account(&service, "customer").await?;
    let tasks = async {
        for _ in 0..8 {
            service
                .database
                .node_ended(service.nodes.local.name(), NodeEnd::Died, service.clock.now())
                .await?;
            let task = create(&service, customer, "ftp://example.com/is-refused-at-once").await?;
            until_failed(&service, customer, &task).await;
        }
        Ok::<_, Error>(())
    };
    // Claims at the backstop interval alone would take 40 seconds.
    let in_time = tokio::time::timeout(Duration::from_secs(20), tasks).await;
    in_time.map_err(|_| Error::new("waiting for tasks", "they are claimed late or not at all"))??;
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn the_local_node_is_alive_also_while_there_is_no_task() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.lease = Duration::from_millis(300);
    let service = Service::start(config).await?;
    let later = service.clock.now().after(Duration::from_millis(1));
    let is_seen = || async { service.database.serving(MODEL, later).await.is_ok_and(|seen| seen.serving) };
    until("the local node sends a heartbeat", is_seen).await;
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn tasks_run_also_with_a_lease_of_no_time() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.lease = Duration::ZERO;
    let service = Service::start(config).await?;
    let customer = account(&service, "customer").await?;
    let task = create(&service, customer, "ftp://example.com/is-refused-at-once").await?;
    until_failed(&service, customer, &task).await;
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_restart_keeps_the_expired_lease_of_an_external_node() -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(|cause| Error::keeping("making a folder", cause))?;
    let mut config = Config::folder(folder.path());
    config.workers = 1;
    let service = Service::start(config.clone()).await?;
    service.add_node_key("lab").await?;
    let models = [MODEL.to_owned()];
    let before = service.clock.now().before(Duration::from_hours(1));
    service.database.register("node", Some("lab"), &models, before).await?;
    service.nodes.refresh_outside().await?;
    let customer = account(&service, "customer").await?;
    let slot = slot("node");
    let rules = LeaseRules { length: Duration::from_secs(1), attempts: 5, ..RULES };
    let task = queue(&service, customer, json!({ "input": 1 })).await?;
    let claims = service.database.claim(&[slot], rules, before).await?;
    assert!(matches!(&claims[..], [Claim::Leased(lease)] if lease.task == task), "{claims:?}");
    service.shutdown().await;

    let service = Service::start(config).await?;
    let later = queue(&service, customer, json!({ "input": 1 })).await?;
    service.dispatcher.look_for_all();
    until("a slot waits", || async { service.dispatcher.idle_slots() > 0 }).await;
    let ending = Ending::Output("{}".to_owned());
    let counts = service.database.finish("node", &task, 1, &ending, service.clock.now()).await?;
    assert!(counts, "the local node has taken the task over");
    let later = service.database.any_task(&later).await?.map(|task| task.overview.status);
    assert_eq!(later, Some(Status::Queued), "the model is the node's");
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_task_that_a_waiting_node_gets_while_the_service_stops_is_released() -> Result<(), Error> {
    let folder = tempfile::tempdir().map_err(|cause| Error::keeping("making a folder", cause))?;
    let mut config = Config::folder(folder.path());
    config.workers = 0;
    let service = Service::start(config).await?;
    let nodes = std::sync::Arc::clone(&service.nodes);
    let customer = account(&service, "customer").await?;
    service.database.register("node", None, &[MODEL.to_owned()], service.clock.now()).await?;
    let task = create(&service, customer, NEVER_RESPONDS).await?;
    let waiting = std::sync::Arc::clone(&nodes);
    let waits = async move {
        let mut leased = Box::pin(waiting.dispatcher.remote_task(slot("node"), true));
        assert!(futures_util::poll!(&mut leased).is_pending());
        waiting.background.stop.cancelled().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    service.background.spawn("test", waits);
    let is_computing =
        |task: Option<TaskDetail>| task.is_some_and(|it| it.overview.status == Status::Computing);
    until("the task computes", || async { service.database.any_task(&task).await.is_ok_and(is_computing) })
        .await;
    drop(nodes);
    service.shutdown().await;

    let service = Service::open_stopped(folder.path()).await?;
    let (database, now) = (&service.database, service.clock.now());
    database.register("other", None, &[MODEL.to_owned()], now).await?;
    let rules = LeaseRules { attempts: 1, ..RULES };
    let claims = database.claim(&[slot("other")], rules, now).await?;
    assert!(matches!(&claims[..], [Claim::Leased(lease)] if lease.task == task), "{claims:?}");
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn tasks_whose_inputs_arrive_get_workers_although_all_fetches_are_taken() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.workers = 1;
    config.shutdown_timeout = Duration::ZERO;
    let service = Service::start(config).await?;
    let mut tasks = Vec::new();
    for customer in [account(&service, "one").await?, account(&service, "other").await?] {
        for _ in 0..9 {
            tasks.push((customer, create(&service, customer, RESPONDS_LATE).await?));
        }
    }
    let all_end = async {
        for (customer, task) in &tasks {
            until_failed(&service, *customer, task).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), all_end).await;
    assert!(in_time.is_ok(), "tasks wait for workers that wait for fetches");
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn inputs_that_never_arrive_hold_no_worker() -> Result<(), Error> {
    let mut config = Config::ephemeral();
    config.workers = 2;
    config.shutdown_timeout = Duration::ZERO;
    let service = Service::start(config).await?;
    let (slow, other) = (account(&service, "slow").await?, account(&service, "other").await?);
    for _ in 0..50 {
        create(&service, slow, NEVER_RESPONDS).await?;
    }
    for customer in [other, other, other] {
        let task = create(&service, customer, "ftp://example.com/is-refused-at-once").await?;
        let ended = until_failed(&service, customer, &task);
        let in_time = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert!(in_time.is_ok(), "the task waited for the inputs of others");
    }
    service.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn an_input_whose_host_fails_for_a_moment_is_fetched_again() -> Result<(), Error> {
    let service = Service::start(Config::ephemeral()).await?;
    let customer = account(&service, "customer").await?;
    let task = create(&service, customer, FAILS_ONCE).await?;
    until_failed(&service, customer, &task).await;
    let ended = service.database.any_task(&task).await?;
    let message = ended.and_then(|task| task.overview.message).unwrap_or_default();
    assert!(!message.is_empty() && !message.contains("reached"), "the file is no picture: {message}");
    service.shutdown().await;
    Ok(())
}
