//! Queries that must not read all rows of a table that grows.

use rusqlite::{StatementStatus, params};

use super::super::catalog::List;
use super::Folder;
use crate::catalog::{Filter, Sort};
use crate::database::conformance::Fixture;

#[tokio::test]
async fn a_page_of_a_list_costs_the_same_however_many_models_there_are() {
    const MODELS: u32 = 20_000;
    let fixture = Fixture::new(Folder::new()).await;
    let database = fixture.engine.sqlite().await;
    let fill = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MODELS}) \
         INSERT INTO models SELECT 'm' || n, n + 1, 'name', 1 + n % 2, '', n % 2, 0, n % 3 > 0, 1, 0, '{{}}', \
         n % 7, n % 5, n % 11, n % 13, 'name', '' FROM numbers"
    );
    database.write(move |db| Ok(db.execute_batch(&fill)?)).await.unwrap();
    let customer = fixture.customer;
    let steps = database.read(move |db| {
        let mut steps = Vec::new();
        for sort in Sort::ALL.into_iter().filter(|sort| *sort != Sort::Trending) {
            for filter in [None, Some(Filter::Official), Some(Filter::Public), Some(Filter::Author)] {
                let mut page = db.prepare(&List::new(filter, sort, false).page)?;
                let rows = page.query_map(params![customer, "", 0, 10, 50], |row| row.get::<_, String>(0))?;
                assert_eq!(rows.count(), 10);
                steps.push((sort, filter, page.get_status(StatementStatus::VmStep)));
            }
        }
        Ok(steps)
    });
    for (sort, filter, steps) in steps.await.unwrap() {
        // A step a model would be 20,000. An owner's models have an index by time of publication alone.
        let is_sorted =
            filter == Some(Filter::Author) && !matches!(sort, Sort::Created | Sort::CreatedOldest);
        assert!(is_sorted || steps < 10_000, "{sort:?} of {filter:?} takes {steps} steps");
    }
}
