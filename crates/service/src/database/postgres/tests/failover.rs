//! Failover: a primary is lost or hangs while tasks are created, and the standby is promoted.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::super::PostgresDatabase;
use super::server::{as_postgres, programs};
use crate::clock::Moment;
use crate::database::Database;
use crate::database::conformance::{Engine, Fixture};
use crate::ledger::{Credit, Money};
use crate::queue::{Created, InsufficientBalance, NewTask};

const SCRIPT: &str = r#"
    set -e
    folder=$(mktemp -d /tmp/inferstore-failover-XXXXXX)
    end() {
        for server in primary standby; do "$1/pg_ctl" stop -m immediate -s -D "$folder/$server" || true; done
        rm -rf "$folder"
    }
    trap 'end "$1" >/dev/null 2>&1' EXIT
    start() { # program folder port
        "$1/pg_ctl" start -w -s -D "$folder/$2" -l "$folder/log" -o "-p $3 -k $folder -c listen_addresses=127.0.0.1 -c fsync=off" </dev/null
    }
    "$1/initdb" -D "$folder/primary" -U inferstore -A trust -E UTF8 --locale=C --no-sync >"$folder/log" 2>&1
    start "$1" primary "$2"
    "$1/pg_basebackup" -h 127.0.0.1 -p "$2" -U inferstore -D "$folder/standby" -R -c fast --no-sync
    start "$1" standby "$3"
    set_up() { "$1/psql" -h 127.0.0.1 -p "$2" -U inferstore -qAt postgres -c "$3"; }
    until [ "$(set_up "$1" "$2" "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")" = 1 ]; do
        sleep 0.05
    done
    set_up "$1" "$2" "ALTER SYSTEM SET synchronous_standby_names = '*'"
    set_up "$1" "$2" "SELECT pg_reload_conf()" >/dev/null
    echo "$folder"
    read -r _ || true
"#;

struct Pair {
    folder: String,
    ports: [u16; 2],
    _script: Child,
    _alive: ChildStdin,
}

impl Pair {
    fn start() -> Self {
        let port = || TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let ports = [port(), port()];
        let mut command = as_postgres("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(programs()).args(ports.map(|port| port.to_string()));
        command.process_group(0).current_dir("/tmp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = command.spawn().unwrap();
        let alive = script.stdin.take().unwrap();
        let mut folder = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut folder).unwrap();
        assert!(!folder.is_empty(), "the servers did not start");
        Self { folder: folder.trim().to_owned(), ports, _script: script, _alive: alive }
    }

    fn signal(&self, signal: &str) {
        let file = std::fs::read_to_string(format!("{}/primary/postmaster.pid", self.folder)).unwrap();
        let process = file.lines().next().unwrap().to_owned();
        let kill = format!("kill -{signal} {process} $(pgrep -P {process})");
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn promote(&self) {
        let mut promote = as_postgres(programs().join("pg_ctl"));
        promote.args(["promote", "-w", "-s", "-D"]).arg(format!("{}/standby", self.folder));
        assert!(promote.current_dir("/tmp").status().unwrap().success());
    }

    fn url(&self) -> String {
        let [one, two] = self.ports;
        format!(
            "postgres://inferstore@127.0.0.1:{one},127.0.0.1:{two}/postgres?target_session_attrs=read-write"
        )
    }
}

#[async_trait]
impl Engine for Pair {
    fn another(&self) -> Self {
        Self::start()
    }

    async fn open(&self) -> Arc<dyn Database> {
        Arc::new(PostgresDatabase::open(&self.url()).await.unwrap())
    }

    async fn execute(&self, sql: &str) {
        let database = PostgresDatabase::open(&self.url()).await.unwrap();
        database.connection().await.unwrap().batch_execute(sql).await.unwrap();
    }
}

const PRICE: i64 = 3;

async fn create(
    database: Arc<dyn Database>,
    task: NewTask,
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> Vec<String> {
    let random = crate::random::Randomness::new(None);
    let mut created = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let task = NewTask { id: random.uuid().unwrap(), ..task.clone() };
        match database.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0)).await {
            Ok(Created::Queued) => {
                created.push(task.id);
                let known = acknowledged.fetch_add(1, Ordering::SeqCst) + 1;
                if let Ok((_, total)) = database.history(task.account, 1, 0).await {
                    assert!(total >= known, "a former primary is read: {total} tasks of {known}");
                }
            }
            Ok(refused) => assert_eq!(refused, Created::Queued),
            Err(cause) => {
                assert!(cause.is_unavailable() || cause.is_in_doubt(), "{cause}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    created
}

async fn fail_over(lose: &str, bring_back: Option<&str>) {
    let fixture = Fixture::new(Pair::start()).await;
    let database = &fixture.database;
    let funds = Credit::Paid(Money::from_smallest(1 << 40));
    database.credit(fixture.customer, funds, Moment(0)).await.unwrap();
    let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let creating: Vec<_> = (0..4)
        .map(|_| {
            let task = fixture.task(Money::from_smallest(PRICE));
            tokio::spawn(create(Arc::clone(database), task, Arc::clone(&acknowledged), Arc::clone(&stop)))
        })
        .collect();
    let total = async || {
        let history = tokio::time::timeout(Duration::from_secs(60), database.history(fixture.customer, 1, 0));
        history.await.expect("a read hangs").map_or(0, |(_, total)| total)
    };
    while total().await < 200 {}
    fixture.engine.signal(lose);
    tokio::task::block_in_place(|| fixture.engine.promote());
    let more = async |than: u64| {
        let grows = async { while total().await < than + 200 {} };
        tokio::time::timeout(Duration::from_secs(60), grows).await.expect("creates go on");
    };
    let before = async {
        loop {
            match total().await {
                0 => tokio::time::sleep(Duration::from_millis(50)).await,
                total => break total,
            }
        }
    };
    more(before.await).await;
    if let Some(signal) = bring_back {
        fixture.engine.signal(signal);
        // Long enough for every connection to be used again, and for another probe of the servers.
        tokio::time::sleep(Duration::from_secs(5)).await;
        more(total().await).await;
    }
    stop.store(true, Ordering::SeqCst);
    for creating in creating {
        for id in creating.await.unwrap() {
            assert!(database.task(fixture.customer, &id).await.unwrap().is_some(), "{id} is lost");
        }
    }
    assert!(acknowledged.load(Ordering::SeqCst) >= 400);
    assert_eq!(database.audit().await.unwrap().faults, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn nothing_acknowledged_is_lost_with_a_primary_whose_standby_is_promoted() {
    fail_over("KILL", None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_former_primary_that_hung_during_the_promotion_is_not_used() {
    fail_over("STOP", Some("CONT")).await;
}

/// Each process probes the servers at its own times, so the processes notice a promotion one after the other.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_write_to_the_new_primary_is_missed_by_no_process() {
    let fixture = Fixture::new(Pair::start()).await;
    let (writer, account) = (&fixture.database, fixture.customer);
    let funds = Credit::Paid(Money::from_smallest(1 << 40));
    writer.credit(account, funds, Moment(0)).await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let reader = fixture.engine.open().await;
        reader.history(account, 1, 0).await.unwrap();
        readers.push(reader);
    }
    tokio::task::block_in_place(|| fixture.engine.promote());

    let random = crate::random::Randomness::new(None);
    let write_and_read = async {
        let mut written = 0;
        while written < 500 {
            let task = NewTask { id: random.uuid().unwrap(), ..fixture.task(Money::from_smallest(PRICE)) };
            if writer.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            written += 1;
            for reader in &readers {
                match reader.task(account, &task.id).await {
                    Ok(found) => assert!(found.is_some(), "a former primary is read"),
                    Err(cause) => assert!(cause.is_unavailable(), "{cause}"),
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), write_and_read).await.expect("creates go on");
}
