//! Query plans: queries that must not scan a growing table.

use std::time::Duration;

use rusqlite::{StatementStatus, ToSql, params};

use super::super::catalog::{By, List, candidates};
use super::super::files::from_nearer_end;
use super::super::ledger::AUDIT_NAMES;
use super::super::queue::lease::{EXPIRED, FIRST_OF_ACCOUNT, NEXT_TURN};
use super::Folder;
use super::group_commit::occupy;
use crate::catalog::{Existing, Filter, Sort};
use crate::clock::Moment;
use crate::database::audits::audits;
use crate::database::conformance::{Fixture, MODEL, RULES, model};
use crate::database::lists::page_of_tasks;
use crate::files::FilePages as _;
use crate::operator::TaskFilter;
use crate::queue::{Claim, Queue as _, Slot, Status};
use crate::registry::Registry as _;

#[tokio::test]
async fn a_page_of_a_list_costs_the_same_however_many_models_there_are() {
    const MODELS: u32 = 20_000;
    let fixture = Fixture::new(Folder::new()).await;
    let database = fixture.engine.sqlite().await;
    let fill = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MODELS}) \
         INSERT INTO models SELECT 'm' || n, n + 1, 'name', 1 + n % 2, '', n % 2, 0, n % 3 > 0, 1, 0, '{{}}', \
         n % 7, n % 5, n % 11, n % 13, 'name', '', 'active', NULL FROM numbers"
    );
    let used = "INSERT INTO model_days SELECT 'm' || (sequence - 1), 1, sequence FROM models \
                WHERE sequence BETWEEN 2 AND 21";
    database.write(move |db| Ok(db.execute_batch(&format!("{fill}; {used}"))?)).await.unwrap();
    let customer = fixture.customer;
    let steps = database.read(move |db| {
        let mut steps = Vec::new();
        for sort in Sort::ALL {
            for filter in [None, Some(Filter::Official), Some(Filter::Public), Some(Filter::Author)] {
                let mut page = db.prepare(&List::new(filter, sort, By::Order).page)?;
                let params = params![customer, "", "", 0, 10, 50];
                let rows = page.query_map(params, |row| row.get::<_, String>(0))?;
                assert_eq!(rows.count(), 10);
                steps.push((sort, filter, page.get_status(StatementStatus::VmStep)));
            }
        }
        Ok(steps)
    });
    for (sort, filter, steps) in steps.await.unwrap() {
        // One step for each model would be 20,000. An owner's models have an index only by time of publication.
        let is_sorted =
            filter == Some(Filter::Author) && !matches!(sort, Sort::Created | Sort::CreatedOldest);
        assert!(is_sorted || steps < 10_000, "{sort:?} of {filter:?} takes {steps} steps");
    }
}

#[tokio::test]
async fn a_search_uses_an_index_unless_the_text_is_short_or_common() {
    const MODELS: u32 = 2_000;
    let fixture = Fixture::new(Folder::new()).await;
    let models: Vec<_> =
        (0..MODELS).map(|number| model(&format!("paint-{number}"), fixture.operator)).collect();
    fixture.database.publish(&models, Existing::Keep).await.unwrap();
    let database = fixture.engine.sqlite().await;
    let count = async |text: &'static str| {
        let numbers = database.read(move |db| candidates(db, text)).await.unwrap()?;
        Some(serde_json::from_str::<Vec<i64>>(&numbers).unwrap().len())
    };
    assert_eq!(count("aint-1234").await, Some(1));
    assert_eq!(count("199").await, Some(12));
    assert_eq!(count("-1").await, None, "too short");
    assert_eq!(count("paint").await, None, "too many");
    assert_eq!(count("no such text").await, Some(0));
}

#[tokio::test]
async fn claims_and_pages_of_an_account_cost_the_same_for_any_queue_length() {
    const TASKS: u32 = 20_000;
    let fixture = Fixture::new(Folder::new()).await;
    fixture.create(fixture.customer, u32::MAX).await;
    let database = fixture.engine.sqlite().await;
    let fill = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {TASKS}) \
         INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, \
         held_balance, input, created_at, updated_at) \
         SELECT 't' || n, account, n, model, version, publisher, status, 0, 0, 0, '{{}}', 0, 0 \
         FROM numbers, tasks"
    );
    database.write(move |db| Ok(db.execute_batch(&fill)?)).await.unwrap();
    let customer = fixture.customer;
    let steps = database.read(move |db| {
        let model: String = db.query_row("SELECT model FROM tasks LIMIT 1", [], |row| row.get(0))?;
        let models = format!("[\"{model}\"]");
        let mut steps = Vec::new();
        let filter = TaskFilter { account: Some(customer), status: None, limit: 10, offset: 0 };
        let of_account = page_of_tasks(filter, "id");
        let queries: [(&str, &[&dyn ToSql]); 4] = [
            (&of_account, params![customer, None::<Status>, 10, 0]),
            (NEXT_TURN, params![models, 10, "node", 10, "[]", 0]),
            (FIRST_OF_ACCOUNT, params![models, customer]),
            (EXPIRED, params![models, 0]),
        ];
        for (query, params) in queries {
            let mut statement = db.prepare(query)?;
            let _rows = statement.query_map(params, |_| Ok(()))?.count();
            steps.push((query.to_owned(), statement.get_status(StatementStatus::VmStep)));
        }
        Ok(steps)
    });
    for (query, steps) in steps.await.unwrap() {
        assert!(steps < 1_000, "{query} takes {steps} steps");
    }
}

#[tokio::test]
async fn an_audit_takes_steps_for_each_row_and_not_for_each_pair_of_rows() {
    const TASKS: u32 = 3_000;
    let fixture = Fixture::new(Folder::new()).await;
    let database = fixture.engine.sqlite().await;
    let (customer, operator, version) = (fixture.customer.0, fixture.operator.0, fixture.version);
    let fill = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {TASKS}) \
         INSERT INTO tasks (id, account, place, model, version, publisher, status, price, held_free, held_balance, cost, \
         input, created_at, updated_at) SELECT 't' || n, {customer}, n, '{MODEL}', {version}, {operator}, 'success', 5, 5, \
         0, 5, '{{}}', 0, 0 FROM numbers; \
         INSERT INTO movements (at, amount, from_account, from_purse, to_account, to_purse, reason, task) \
         SELECT 0, 5, account, 'held', publisher, 'earnings', 'charge', id FROM tasks"
    );
    database.write(move |db| Ok(db.execute_batch(&fill)?)).await.unwrap();
    let steps = database.read(|db| {
        let mut steps = Vec::new();
        for (query, sentence) in audits(&AUDIT_NAMES) {
            let mut audit = db.prepare(&query)?;
            assert_eq!(audit.query_map([], |row| row.get::<_, String>(0))?.count(), 0, "{sentence}");
            steps.push((sentence, audit.get_status(StatementStatus::VmStep)));
        }
        Ok(steps)
    });
    for (sentence, steps) in steps.await.unwrap() {
        assert!(steps < 1_000_000, "{sentence}: {steps} steps");
    }
}

#[tokio::test]
async fn a_claim_that_finds_no_task_does_not_wait_for_writes() {
    let folder = Folder::new();
    let database = folder.sqlite().await;
    let slot = Slot {
        node: "node".to_owned(),
        models: [MODEL.to_owned()].into(),
        max_running: 1,
        passed_over: Vec::new(),
    };
    database.register("node", None, &slot.models, Moment(0)).await.unwrap();
    let release = occupy(&database).await;
    let slots = [slot.clone(), slot];
    let claims = tokio::time::timeout(Duration::from_secs(20), database.claim(&slots, RULES, Moment(0)));
    let claims = claims.await.unwrap().unwrap();
    assert!(matches!(claims[..], [Claim::NoTask, Claim::NoTask]), "{claims:?}");
    release.send(()).unwrap();
}

#[tokio::test]
async fn the_last_page_of_a_folder_is_read_from_its_end() {
    const FILES: u32 = 20_000;
    let fixture = Fixture::new(Folder::new()).await;
    let database = fixture.engine.sqlite().await;
    let customer = fixture.customer;
    database
        .write(move |db| {
            let fill = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2) \
                 INSERT INTO objects (id, bucket, key, owner, payer, folder, category, mime, size, etag, blob, \
                 created_at) SELECT n, 'b', n, ?1, ?1, 'samples', 'image', 'image/png', 1, '', n, 0 FROM numbers";
            db.execute(fill, params![customer, FILES])?;
            Ok(())
        })
        .await
        .unwrap();
    for (page, expected) in
        [(1, 1..=10), (1_000, 9_991..=10_000), (1_001, 10_001..=10_010), (2_000, 19_991..=20_000)]
    {
        let (files, total) = database.files(customer, "samples", None, page, 10).await.unwrap();
        let keys: Vec<u32> = files.iter().map(|file| file.key.parse().unwrap()).collect();
        assert_eq!((keys, total), (expected.collect(), u64::from(FILES)), "page {page}");
    }
    let (files, _) = database.files(customer, "samples", None, 2_001, 10).await.unwrap();
    assert!(files.is_empty(), "there is no such page");
    assert_eq!(from_nearer_end(10_000, 10, 20_000), ("ASC", 10_000));
    assert_eq!(from_nearer_end(10_010, 10, 20_000), ("DESC", 9_980));
    assert_eq!(from_nearer_end(19_990, 10, 20_000), ("DESC", 0));
    let (files, _) = database.files(customer, "samples", Some("image"), 667, 30).await.unwrap();
    assert_eq!(files.len(), 20, "the last page is not full");
}
