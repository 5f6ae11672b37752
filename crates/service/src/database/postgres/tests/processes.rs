//! Several processes over one database, each with its own connections and caches.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::super::PostgresDatabase;
use super::super::connect;
use super::server::Empty;
use crate::accounts::{Accounts as _, NewKey};
use crate::catalog::{Catalog as _, Existing, ModelPages as _, Search, Sort};
use crate::clock::Moment;
use crate::database::conformance::queue::slot;
use crate::database::conformance::{File, Fixture, MODEL, RULES, model};
use crate::database::{JOB_LEASE, Maintenance as _, QueueChange, Sharing as _};
use crate::files::{Files as _, Object, Replaces, Stored, Target};
use crate::ledger::{Credit, Ledger as _, Money, MovementSums as _};
use crate::queue::{Cancel, Claim, Created, Ending, InsufficientBalance, NewTask, Queue as _, Slot, Status};
use crate::random::Randomness;
use crate::registry::Registry as _;

const NOW: Moment = Moment(1_000_000);
const PRICE: i64 = 3;
const TASKS: usize = 60;

const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
     WHERE datname = current_database() AND pid <> pg_backend_pid()";

const WAITING: &str =
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";

async fn create(process: PostgresDatabase, random: Randomness, task: NewTask) -> (usize, Vec<String>) {
    let (mut queued, mut canceled) = (0, Vec::new());
    for number in 0..TASKS {
        let task = NewTask { id: random.uuid().unwrap(), ..task.clone() };
        match process.create_task(&task, InsufficientBalance::Refuse, u32::MAX, NOW).await.unwrap() {
            Created::Queued => queued += 1,
            Created::Refused { spendable } => assert!(spendable.smallest() < PRICE),
            refused => assert_eq!(refused, Created::Queued),
        }
        let is_canceled =
            number % 5 == 0 && process.cancel(task.account, &task.id, NOW).await.unwrap() == Cancel::Canceled;
        if is_canceled {
            canceled.push(task.id);
        }
    }
    (queued, canceled)
}

async fn work(process: PostgresDatabase, node: String) -> Vec<(String, bool)> {
    process.register(&node, None, &[MODEL.to_owned()], NOW).await.unwrap();
    let (mut ended, mut idle) = (Vec::new(), 0);
    while idle < 20 {
        let slots = vec![slot(&node); 4];
        let claims = process.claim(&slots, RULES, NOW).await.unwrap();
        let leases: Vec<_> = claims
            .into_iter()
            .filter_map(|claim| match claim {
                Claim::Leased(lease) => Some(lease),
                _ => None,
            })
            .collect();
        idle = if leases.is_empty() { idle + 1 } else { 0 };
        if leases.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for lease in leases {
            let succeeds = ended.len() % 7 != 0;
            let ending = match succeeds {
                true => Ending::Output("{}".to_owned()),
                false => Ending::Error { message: "no".to_owned(), detail: "{}".to_owned() },
            };
            let finish = || process.finish(&node, &lease.task, lease.attempt, &ending, NOW);
            let (first, second) = tokio::join!(finish(), finish());
            assert_ne!(first.unwrap(), second.unwrap(), "an ending counts once");
            ended.push((lease.task.clone(), succeeds));
        }
    }
    ended
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn processes_that_create_claim_and_cancel_at_once_bill_once() {
    let fixture = Fixture::new(Empty::new()).await;
    let other = crate::accounts::NewAccount::draw("other", crate::accounts::Scope::Personal, &fixture.random);
    let other = fixture.database.add_account(&other.unwrap(), NOW).await.unwrap().id;
    let funds = [(fixture.customer, 250), (other, 10_000)];
    for (account, amount) in funds {
        fixture.database.credit(account, Credit::Paid(Money::from_smallest(amount)), NOW).await.unwrap();
        fixture.database.credit(account, Credit::Free(Money::from_smallest(50)), NOW).await.unwrap();
    }
    let task = |account| NewTask {
        id: String::new(),
        account,
        model: MODEL.to_owned(),
        version: fixture.version,
        publisher: fixture.operator,
        price: Money::from_smallest(PRICE),
        input: "{}".to_owned(),
        key: None,
        traceparent: None,
        spending: None,
    };
    let processes = join_all((0..3).map(|_| fixture.engine.process())).await;
    let creating = processes.iter().flat_map(|process| {
        let of = |account| tokio::spawn(create(process.clone(), Randomness::new(None), task(account)));
        [of(fixture.customer), of(other), of(fixture.customer), of(other)]
    });
    let creating: Vec<_> = creating.collect();
    let working: Vec<_> = processes
        .iter()
        .enumerate()
        .map(|(number, process)| tokio::spawn(work(process.clone(), format!("node-{number}"))))
        .collect();
    let adding_up = processes[0].clone();
    let adding_up = tokio::spawn(async move {
        loop {
            adding_up.consolidate().await.unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    });
    let created: Vec<_> = join_all(creating).await.into_iter().map(Result::unwrap).collect();
    let ended: Vec<_> = join_all(working).await.into_iter().flat_map(Result::unwrap).collect();
    adding_up.abort();

    let queued: usize = created.iter().map(|(queued, _)| queued).sum();
    let canceled: usize = created.iter().map(|(_, canceled)| canceled.len()).sum();
    let distinct: BTreeSet<&String> = ended.iter().map(|(task, _)| task).collect();
    assert_eq!(distinct.len(), ended.len(), "a task was leased twice");
    assert_eq!(ended.len() + canceled, queued, "a task was neither ended nor canceled");
    assert!(canceled > 0 && processes.len() == 3);
    let charged = ended.iter().filter(|(_, succeeds)| *succeeds).count();
    let earned = fixture.database.purses(fixture.operator).await.unwrap().earnings.smallest();
    assert_eq!(earned, PRICE * i64::try_from(charged).unwrap());
    for (account, amount) in funds {
        let purses = fixture.database.purses(account).await.unwrap();
        assert_eq!(purses.held, Money::ZERO);
        assert!(purses.spendable().smallest() <= amount + 50);
    }
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
    let depths = fixture.database.depths().await.unwrap();
    assert!(depths.iter().all(|(status, tasks)| *status != Status::Success && *tasks == 0), "{depths:?}");
    processes[1].consolidate().await.unwrap();
    assert_eq!(fixture.database.purses(fixture.operator).await.unwrap().earnings.smallest(), earned);
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_turn_is_never_lost_between_a_create_and_the_deletion_of_idle_turns() {
    let fixture = Fixture::new(Empty::new()).await;
    fixture.database.register("node", None, &[MODEL.to_owned()], NOW).await.unwrap();
    let deleting = fixture.engine.process().await;
    let deleting = tokio::spawn(async move {
        loop {
            deleting.consolidate().await.unwrap();
        }
    });
    for _ in 0..150 {
        let task = fixture.task(Money::ZERO);
        let create = fixture.database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, NOW);
        assert_eq!(create.await.unwrap(), Created::Queued);
        let claims = fixture.database.claim(&[slot("node")], RULES, NOW).await.unwrap();
        assert!(matches!(&claims[..], [Claim::Leased(lease)] if lease.task == task.id), "{claims:?}");
    }
    assert!(!deleting.is_finished(), "turns are deleted all the time");
    deleting.abort();
}

#[tokio::test]
#[ignore = "it starts a PostgreSQL"]
async fn a_slot_claims_for_the_next_account_beside_a_concurrent_claim() {
    let fixture = Fixture::new(Empty::new()).await;
    fixture.database.register("node", None, &[MODEL.to_owned()], NOW).await.unwrap();
    let taken = fixture.create_task(fixture.customer, 0, NOW).await;
    let next = fixture.create_task(fixture.operator, 0, NOW).await;
    let process = fixture.engine.process().await;
    let taking = process.connection().await.unwrap();
    let lock = format!("BEGIN; SELECT 1 FROM tasks WHERE id = '{taken}' FOR UPDATE");
    taking.batch_execute(&lock).await.unwrap();
    let claims = fixture.database.claim(&[slot("node")], RULES, NOW).await.unwrap();
    assert!(matches!(&claims[..], [Claim::Leased(lease)] if lease.task == next), "{claims:?}");
}

#[tokio::test]
#[ignore = "it starts a PostgreSQL"]
async fn a_lease_reaches_its_slot_although_the_claim_of_another_slot_fails() {
    let fixture = Fixture::new(Empty::new()).await;
    fixture.database.publish(&[model("other", fixture.operator)], Existing::Keep).await.unwrap();
    let broken = Slot { models: ["other".to_owned()].into(), ..slot("broken") };
    for slot in [&slot("node"), &broken] {
        fixture.database.register(&slot.node, None, &slot.models, NOW).await.unwrap();
    }
    let task = fixture.create_task(fixture.customer, 0, NOW).await;
    let other = NewTask { model: "other".to_owned(), ..fixture.task(Money::ZERO) };
    let create = fixture.database.create_task(&other, InsufficientBalance::Refuse, u32::MAX, NOW);
    assert_eq!(create.await.unwrap(), Created::Queued);
    let damage = "ALTER TABLE tasks ADD CHECK (model <> 'other' OR status <> 'computing')";
    fixture.engine.execute(damage).await;

    let claims = fixture.database.claim(&[slot("node"), broken.clone()], RULES, NOW).await.unwrap();
    assert!(matches!(&claims[..], [Claim::Leased(lease), Claim::NoTask] if lease.task == task), "{claims:?}");
    let failed = fixture.database.claim(&[broken], RULES, NOW).await;
    assert!(failed.is_err(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn processes_that_start_at_once_on_an_empty_server_bring_one_schema() {
    let empty = Empty::new();
    empty.url().await;
    let processes = join_all((0..6).map(|_| empty.process())).await;
    for process in &processes {
        process.check_writer().await.unwrap();
    }
    empty.execute("UPDATE schema_version SET version = 999").await;
    empty.process().await;
    empty.execute("UPDATE schema_version SET compatible = 999").await;
    let refused = PostgresDatabase::open(&empty.url().await).await.err().unwrap().to_string();
    assert!(refused.contains("newer version"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_database_of_the_first_schema_is_brought_up_to_date() {
    let fixture = Fixture::new(Empty::new()).await;
    for column in [
        "purses DROP COLUMN taken_free",
        "model_uses DROP COLUMN tasks",
        "node_models DROP COLUMN seen_at",
        "node_models DROP COLUMN slot",
    ] {
        fixture.engine.execute(&format!("ALTER TABLE {column}")).await;
    }
    for column in [
        "movements DROP COLUMN adjustment",
        "accounts DROP COLUMN state, DROP COLUMN quota",
        "models DROP COLUMN state, DROP COLUMN stated",
        "api_keys DROP COLUMN name, DROP COLUMN expires_at, DROP COLUMN daily_limit, DROP COLUMN models",
        "versions DROP COLUMN is_built_in",
        "jobs DROP COLUMN holder, DROP COLUMN held_until",
        "tasks DROP COLUMN traceparent",
    ] {
        fixture.engine.execute(&format!("ALTER TABLE {column}")).await;
    }
    let tables = "DROP TABLE create_keys, former_urls, adjustments, key_tasks, operator_log";
    fixture.engine.execute(tables).await;
    fixture.engine.execute("DROP INDEX targets_unused").await;
    fixture.engine.execute("UPDATE schema_version SET version = 1").await;
    let process = fixture.engine.process().await;
    let created = process.create_task(&fixture.task(Money::ZERO), InsufficientBalance::Refuse, 1, NOW).await;
    assert_eq!(created.unwrap(), Created::Queued);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn one_process_of_all_begins_a_job_within_its_interval() {
    let empty = Empty::new();
    let processes = join_all((0..4).map(|_| empty.process())).await;
    let interval = Duration::from_mins(1);
    let begun = |now| {
        let begin = processes.iter().map(move |process| process.begin_job("job", interval, now));
        async move { join_all(begin).await.into_iter().filter(|begun| *begun.as_ref().unwrap()).count() }
    };
    assert_eq!(begun(NOW).await, 1);
    assert_eq!(begun(NOW.after(interval / 2)).await, 0);
    assert_eq!(begun(NOW.after(interval)).await, 1);
    assert_eq!(begun(Moment(0)).await, 1, "the clock was set back");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_job_that_goes_on_is_begun_by_no_other_process_unless_that_is_gone() {
    let empty = Empty::new();
    let (one, other) = (empty.process().await, empty.process().await);
    let interval = Duration::from_secs(1);
    assert!(one.begin_job("job", interval, NOW).await.unwrap());
    let later = NOW.after(JOB_LEASE / 2);
    assert!(!other.begin_job("job", interval, later).await.unwrap(), "it goes on");
    one.hold_job("job", later).await.unwrap();
    assert!(!other.begin_job("job", interval, NOW.after(JOB_LEASE + interval)).await.unwrap());
    other.end_job("job").await.unwrap();
    let gone = later.after(JOB_LEASE + interval);
    assert!(
        !other.begin_job("job", interval, later.after(interval)).await.unwrap(),
        "not the other's to end"
    );
    assert!(other.begin_job("job", interval, gone).await.unwrap());
    other.end_job("job").await.unwrap();
    assert!(one.begin_job("job", interval, gone.after(interval)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_queued_task_and_a_revoked_key_are_known_to_other_processes_at_once() {
    let fixture = Fixture::new(Empty::new()).await;
    let (one, other) = (fixture.engine.process().await, fixture.engine.process().await);
    assert_eq!(other.queue_changed().await, QueueChange::Any);
    one.announce_queued("a model");
    let changed = tokio::time::timeout(Duration::from_secs(5), other.queue_changed()).await;
    assert_eq!(changed.unwrap(), QueueChange::Queued("a model".to_owned()));

    let key = NewKey::draw(&fixture.random).unwrap();
    one.add_key(fixture.customer, &key.kept, NOW).await.unwrap();
    assert!(other.key(&key.kept.id).await.unwrap().is_some(), "it is in the cache from now on");
    one.revoke_key(&key.kept.id, NOW).await.unwrap();
    let forgotten = async {
        while other.key(&key.kept.id).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), forgotten).await.unwrap();
    assert!(one.published(MODEL).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_revoked_key_is_invalid_in_all_processes_without_a_wait() {
    let fixture = Fixture::new(Empty::new()).await;
    let (one, other) = (fixture.engine.process().await, fixture.engine.process().await);
    assert_eq!(other.queue_changed().await, QueueChange::Any);
    let key = NewKey::draw(&fixture.random).unwrap();
    one.add_key(fixture.customer, &key.kept, NOW).await.unwrap();
    let (blocker, watcher) = (other.connection().await.unwrap(), other.connection().await.unwrap());
    blocker.batch_execute("BEGIN; LOCK TABLE api_keys IN SHARE MODE").await.unwrap();
    let is_waiting = async { while watcher.query(WAITING, &[]).await.unwrap().is_empty() {} };
    tokio::select! {
        revoked = one.revoke_key(&key.kept.id, NOW) => panic!("it waits for the lock: {revoked:?}"),
        () = is_waiting => {}
    }
    for process in [&one, &other] {
        assert!(process.key(&key.kept.id).await.unwrap().is_some(), "it is in the cache from now on");
    }
    blocker.batch_execute("COMMIT").await.unwrap();
    let forgotten = async {
        while one.key(&key.kept.id).await.unwrap().is_some()
            || other.key(&key.kept.id).await.unwrap().is_some()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), forgotten).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn deltas_folded_under_locked_purses_are_counted_exactly_once() {
    let fixture = Fixture::new(Empty::new()).await;
    let process = fixture.engine.process().await;
    for second in 0..2 {
        let most = Credit::Paid(Money::from_smallest(i64::MAX));
        process.credit(fixture.customer, most, NOW).await.unwrap();
        fixture.create_task(fixture.customer, i64::MAX, NOW).await;
        fixture.succeed(Moment(second)).await;
        let blocker = process.connection().await.unwrap();
        let change = format!(
            "BEGIN; UPDATE purses SET earnings = earnings - 7 * {second} WHERE account = {0}; \
             INSERT INTO movements (at, amount, from_account, from_purse, reason) \
             SELECT 0, 7, {0}, 'earnings', 'set' WHERE {second} > 0",
            fixture.operator.0
        );
        blocker.batch_execute(&change).await.unwrap();
        process.consolidate().await.unwrap();
        blocker.batch_execute("COMMIT").await.unwrap();
        for _ in 0..2 {
            assert_eq!(process.purses(fixture.operator).await.unwrap().earnings.smallest(), i64::MAX);
            assert_eq!(process.audit().await.unwrap().faults, [""; 0]);
            process.consolidate().await.unwrap();
        }
        let left =
            process.connection().await.unwrap().query("SELECT 1 FROM purse_changes", &[]).await.unwrap();
        assert!(left.is_empty(), "it is added up");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn changes_missed_without_a_connection_are_known_afterwards() {
    let fixture = Fixture::new(Empty::new()).await;
    let process = fixture.engine.process().await;
    assert_eq!(process.queue_changed().await, QueueChange::Any);
    let key = NewKey::draw(&fixture.random).unwrap();
    process.add_key(fixture.customer, &key.kept, NOW).await.unwrap();
    assert!(process.key(&key.kept.id).await.unwrap().is_some(), "it is in the cache from now on");
    fixture.engine.execute("UPDATE api_keys SET revoked_at = 1").await;
    assert!(process.key(&key.kept.id).await.unwrap().is_some(), "no one said so");
    fixture.engine.execute(CUT).await;
    let changed = tokio::time::timeout(Duration::from_secs(5), process.queue_changed()).await;
    assert_eq!(changed.unwrap(), QueueChange::Any, "tasks may have been queued");
    assert!(process.key(&key.kept.id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn uploads_of_one_key_at_once_leave_one_file_and_every_byte_is_counted() {
    let fixture = Fixture::new(Empty::new()).await;
    let processes = join_all((0..3).map(|_| fixture.engine.process())).await;
    let customer = fixture.customer;
    for round in 0..5 {
        let uploads = (0..6_u64).map(|number| {
            let process = processes[number as usize % 3].clone();
            let random = Randomness::new(None);
            tokio::spawn(async move {
                let (id, name) = (random.uuid().unwrap(), round.to_string());
                let target = Target::of_owner(id, (customer, "bucket"), &name, number + 1, NOW);
                let object = |etag: &str| Object {
                    bucket: target.bucket.clone(),
                    key: target.key.clone(),
                    blob: random.uuid().unwrap(),
                    mime: target.mime.clone(),
                    size: target.size,
                    etag: etag.to_owned(),
                    created_at: NOW,
                };
                process.add_target(&target, 100).await.unwrap();
                let ids = [random.uuid().unwrap(), random.uuid().unwrap()];
                let (one, other) = (object("one"), object("other"));
                let (one, other) = tokio::join!(
                    process.store_upload(&target.id, &ids[0], &one, Replaces::Any),
                    process.store_upload(&target.id, &ids[1], &other, Replaces::Any)
                );
                let kept = |stored: &Stored| matches!(stored, Stored::Done { .. });
                let (one, other) = (one.unwrap(), other.unwrap());
                assert!(kept(&one) != kept(&other), "{one:?} {other:?}");
            })
        });
        for upload in join_all(uploads).await {
            upload.unwrap();
        }
    }
    let usage = fixture.database.usage(customer).await.unwrap();
    let (files, total) = fixture.database.files(customer, "samples", None, 1, 100).await.unwrap();
    assert_eq!((usage.files, total, files.len()), (5, 5, 5));
    assert_eq!(usage.bytes, files.iter().map(|file| file.size).sum::<u64>());
    assert_eq!(fixture.database.audit().await.unwrap().faults, [""; 0]);
    fixture.upload(customer, customer, &File::of_size(1), NOW).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn requests_fail_while_the_database_is_away_and_recover_afterwards() {
    let fixture = Fixture::new(Empty::new()).await;
    let process = fixture.engine.process().await;
    process.check_writer().await.unwrap();
    for _ in 0..3 {
        fixture.engine.execute(CUT).await;
        assert!(process.account("customer").await.unwrap().is_some());
        let credit = Credit::Free(Money::from_smallest(1));
        fixture.engine.execute(CUT).await;
        process.credit(fixture.customer, credit, NOW).await.unwrap();
    }
    assert_eq!(process.purses(fixture.customer).await.unwrap().free.smallest(), 3);
    let nowhere = "postgres://unknown:hidden-password@127.0.0.1:9/none";
    let refused = PostgresDatabase::open(nowhere).await.err().unwrap();
    assert!(refused.is_unavailable(), "it may come back");
    assert!(!format!("{refused} {refused:?}").contains("hidden-password"));
    let invalid = connect::config("postgres://user:hidden-password@:x/none").err().unwrap();
    assert!(!format!("{invalid} {invalid:?}").contains("hidden-password"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn an_upload_target_whose_statement_was_cut_off_is_added_again() {
    let fixture = Fixture::new(Empty::new()).await;
    let process = fixture.engine.process().await;
    let id = fixture.random.uuid().unwrap();
    let target = Target::of_owner(id, (fixture.customer, "bucket"), "file", 1, NOW);
    let other = fixture.engine.process().await;
    let (blocker, watcher) = (other.connection().await.unwrap(), other.connection().await.unwrap());
    blocker.batch_execute("BEGIN; LOCK TABLE upload_targets").await.unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
               AND datname = current_database()";
    let cut = async {
        while watcher.query(cut, &[]).await.unwrap().is_empty() {}
        blocker.batch_execute("COMMIT").await.unwrap();
    };
    let (added, ()) = tokio::join!(process.add_target(&target, 100), cut);
    added.unwrap();
    assert!(process.target(&target.id).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn searches_leave_half_of_the_connections_to_others() {
    let fixture = Fixture::new(Empty::new()).await;
    let process = fixture.engine.process().await;
    let other = fixture.engine.process().await;
    let (blocker, watcher) = (other.connection().await.unwrap(), other.connection().await.unwrap());
    blocker.batch_execute("BEGIN; LOCK TABLE models IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let search = |number: usize| {
        let process = process.clone();
        let (caller, text) = (fixture.customer, number.is_multiple_of(2).then(|| "text".to_owned()));
        let search =
            Search { caller, text, sort: Sort::Trending, filter: None, limit: 1, offset: 0, now: NOW };
        async move { process.models(&search).await }
    };
    let searches: JoinSet<_> = (0..connect::MAX_CONNECTIONS * 2).map(search).collect();
    while watcher.query(WAITING, &[]).await.unwrap().len() < connect::MAX_CONNECTIONS / 2 {}
    assert!(process.depths().await.unwrap().iter().all(|(_, tasks)| *tasks == 0));
    blocker.batch_execute("COMMIT").await.unwrap();
    assert!(searches.join_all().await.iter().all(Result::is_ok));
}
