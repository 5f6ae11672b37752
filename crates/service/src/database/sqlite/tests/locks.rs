//! An audit of damaged rows.

use super::Folder;
use crate::clock::Moment;
use crate::database::conformance::{Engine as _, File, Fixture};

#[tokio::test]
async fn an_audit_finds_usage_that_is_not_that_of_the_files_and_queued_tasks_without_a_turn() {
    let fixture = Fixture::new(Folder::new()).await;
    fixture.upload(fixture.customer, fixture.customer, &File::of_size(3), Moment(0)).await;
    fixture.create(fixture.customer, u32::MAX).await;
    fixture.engine.execute("UPDATE folder_usage SET bytes = 4; DELETE FROM turns").await;
    let faults = fixture.database.audit().await.unwrap().faults;
    assert_eq!(
        faults,
        [
            "samples/text of account 2: the usage of a folder is not that of its files; 4 is kept, 3 was computed",
            "account 2: queued tasks have no turn, so they are never claimed; 0 is kept, 1 was computed",
        ]
    );
}
