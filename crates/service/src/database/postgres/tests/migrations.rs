//! Migrations while processes of the previous version serve and others read.

use std::time::{Duration, Instant};

use super::super::migrations::{SCHEMA, Step, migrate};
use super::super::primary::Primary;
use super::super::tls::Tls;
use super::super::{PostgresDatabase, connect};
use super::server::Empty;
use crate::clock::Moment;
use crate::database::conformance::Fixture;
use crate::ledger::Money;
use crate::queue::{Created, InsufficientBalance, Queue as _};

/// Time for which a reader, such as a dump, holds the tables.
const READING: Duration = Duration::from_secs(8);

/// Maximum latency of a create meanwhile: one failed lock request, on a busy machine.
const MAX_CREATE: Duration = Duration::from_secs(3);

async fn pool(empty: &Empty) -> deadpool_postgres::Pool {
    let servers = connect::servers(&empty.url().await).unwrap();
    connect::pool(Primary::new(servers, Tls::new().unwrap())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn creates_go_on_while_a_migration_waits_for_a_reader() {
    let fixture = Fixture::new(Empty::new()).await;
    let process = fixture.engine.process().await;
    let next = [
        Step::Statements("ALTER TABLE purses ADD COLUMN next BIGINT NOT NULL DEFAULT 0"),
        Step::Index("tasks_by_age", "tasks (created_at)"),
        Step::Statements("ALTER TABLE tasks ADD COLUMN next BIGINT"),
    ];
    let schema = [SCHEMA, &next].concat();
    let migrating = pool(&fixture.engine).await;
    let migration = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        while let Err(cause) = migrate(&migrating, &schema).await {
            assert!(cause.is_unavailable(), "{cause}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let read = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM purses; SELECT count(*) FROM tasks; \
         SELECT pg_sleep({}); COMMIT",
        READING.as_secs()
    );
    let create = async {
        let until = Instant::now() + READING - Duration::from_secs(1);
        let mut creates = 0;
        while Instant::now() < until {
            let task = fixture.task(Money::ZERO);
            let create = process.create_task(&task, InsufficientBalance::Refuse, u32::MAX, Moment(0));
            let created = tokio::time::timeout(MAX_CREATE, create).await;
            assert_eq!(created.expect("it waits behind the migration").unwrap(), Created::Queued);
            creates += 1;
        }
        assert!(creates > 100 && !migration.is_finished(), "{creates} creates while somebody reads");
    };
    tokio::join!(fixture.engine.execute(&read), create);
    tokio::time::timeout(Duration::from_secs(60), migration).await.unwrap().unwrap();
    let valid = "SELECT 1 FROM pg_index WHERE indexrelid = 'tasks_by_age'::regclass AND indisvalid";
    let connection = process.connection().await.unwrap();
    assert_eq!(connection.query(valid, &[]).await.unwrap().len(), 1);
    connection.query("SELECT purses.next, tasks.next FROM purses, tasks LIMIT 1", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn a_database_that_cannot_hold_every_text_is_refused() {
    let (any, latin) = (Empty::new(), Empty::new());
    let latin = latin.uncreated_url();
    let name = latin.split(['/', '?']).nth(3).unwrap();
    any.url().await;
    any.execute(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")).await;
    let refused = PostgresDatabase::open(&latin).await.err().unwrap();
    let said = refused.to_string();
    assert!(said.contains("its encoding is LATIN1") && !refused.is_unavailable(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it starts a PostgreSQL"]
async fn an_interrupted_index_build_is_repeated_by_one_process() {
    let fixture = Fixture::new(Empty::new()).await;
    for _ in 0..2 {
        fixture.create_task(fixture.customer, 0, Moment(0)).await;
    }
    // The failed statement leaves an invalid index behind.
    let connection = fixture.engine.process().await.connection().await.unwrap();
    let unique = "CREATE UNIQUE INDEX CONCURRENTLY tasks_by_age ON tasks (created_at)";
    connection.batch_execute(unique).await.unwrap_err();
    let schema = [SCHEMA, &[Step::Index("tasks_by_age", "tasks (created_at)")]].concat();
    let migrations = (0..3).map(|_| {
        let schema = schema.clone();
        let empty = &fixture.engine;
        async move {
            let pool = pool(empty).await;
            while let Err(cause) = migrate(&pool, &schema).await {
                assert!(cause.is_unavailable(), "{cause}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    futures_util::future::join_all(migrations).await;
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'tasks_by_age'::regclass";
    assert!(connection.query_one(valid, &[]).await.unwrap().get::<_, bool>(0));
}
