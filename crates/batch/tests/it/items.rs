//! Steps of an item, and how a second start continues from each.

use std::error::Error as _;

use inferstore::middleware::{BoxFuture, Middleware, Next};
use inferstore::reqwest::{self, Request, Response};
use inferstore::types::TaskStatus;
use inferstore::{Error as ClientError, File, Inputs, Run, TaskDisposition};
use inferstore_batch::{Batch, Error, JournalErrorKind, Step, within_limits};
use inferstore_testing::ScriptedService;
use serde_json::json;
use tempfile::TempDir;

use crate::{SECOND, count};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Fixture {
    service: ScriptedService,
    folder: TempDir,
}

impl Fixture {
    fn new() -> Result<Self> {
        Ok(Self { service: ScriptedService::new(), folder: tempfile::tempdir()? })
    }

    fn batch(&self) -> Result<Batch> {
        Ok(Batch::open(&self.service.client()?, self.folder.path().join("journal.jsonl"))?)
    }

    fn run(&self) -> inferstore::Result<Run> {
        let inputs = Inputs::new().file("input", File::bytes("a.png", b"pixels".to_vec()));
        Ok(self.service.client()?.model("m").run(inputs))
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_goes_on_at_the_next_start_and_one_process_has_the_journal() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").succeeds(json!("done"));
    let batch = fixture.batch()?;
    let prepared = fixture.run()?.prepare().await?;
    batch.item("a").prepared(&prepared)?;
    let locked = Batch::open(&fixture.service.client()?, fixture.folder.path().join("journal.jsonl"));
    assert!(locked.is_err_and(|error| error.kind == JournalErrorKind::Locked));
    drop(batch);

    let item = fixture.batch()?.item("a");
    let task =
        item.start(|| std::future::ready(Err(ClientError::InvalidArgument("again".to_owned())))).await?;
    drop(item);
    let item = fixture.batch()?.item("a");
    let same = item.start(async || fixture.run()?.prepare().await).await?;
    assert_eq!(task.id(), same.id());
    let outcome = item.ended(same.wait().await)?;
    item.saving(&outcome, vec!["out.png".into()])?;
    assert!(matches!(item.step()?, Some(Step::Saving { uploaded, .. }) if uploaded == prepared.uploaded));
    item.done(&outcome, vec!["out.png".into()])?;
    drop(item);
    let step = fixture.batch()?.item("a").step()?;
    assert!(matches!(&step, Some(Step::Done { outputs, .. }) if outputs.len() == 1), "{step:?}");
    assert_eq!(step.and_then(|step| step.task().cloned()), Some(outcome.task));
    assert_eq!(fixture.service.created().len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_failed_item_is_run_again_and_its_inputs_are_deleted() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").fails("out of memory").succeeds(json!("done"));
    let item = fixture.batch()?.delete_inputs(true).item("a");
    let prepare = async || fixture.run()?.prepare().await;
    // The run was prepared by another client, whose create may be on its way: the refusal is asked for once more.
    (0..2).for_each(|_| {
        fixture.service.responds("createTask", 422, json!({ "status": "fail", "message": "no" }));
    });
    let refused = item.start(prepare).await;
    assert!(matches!(&refused, Err(Error::Client(ClientError::Api(_)))), "{refused:?}");
    assert!(matches!(item.step()?, Some(Step::Failed(_))));
    fixture.service.responds("deleteFile", 500, "");
    assert_eq!(item.delete_inputs().await.len(), 1, "the next start tries again");
    assert_eq!(item.delete_inputs().await.len(), 0);
    assert_eq!(item.delete_inputs().await.len(), 0, "they are deleted");
    assert_eq!(count(&fixture.service.requests(), "deleteFile"), 2);

    let failed = item.ended(item.start(prepare).await?.wait().await);
    assert!(failed.is_err_and(|error| error.to_string().contains("out of memory")));
    assert!(matches!(item.step()?, Some(Step::Failed(why)) if why.contains("out of memory")));
    // The inputs of the failed run are deleted before the item runs again.
    let outcome = item.ended(item.start(prepare).await?.wait().await)?;
    item.done(&outcome, Vec::new())?;
    assert!(matches!(item.step()?, Some(Step::Done { .. })));
    assert_eq!(item.delete_inputs().await.len(), 0);
    assert_eq!(fixture.service.created().len(), 2);
    let requests = fixture.service.requests();
    assert_eq!((count(&requests, "upload"), count(&requests, "deleteFile")), (3, 4), "one failed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_that_seems_gone_is_read_once_more_before_it_is_run_again() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").stays_queued();
    let item = fixture.batch()?.item("a");
    let prepare = async || fixture.run()?.prepare().await;
    let gone = json!({ "status": "fail", "message": "no such task" });
    for is_back in [true, false] {
        let task = item.start(prepare).await?;
        fixture.service.responds("getTask", 404, gone.clone());
        let ended = item.ended(task.wait().await);
        assert!(matches!(&ended, Err(Error::Client(error)) if error.is_gone()), "{ended:?}");
        assert!(matches!(item.step()?, Some(Step::Gone { .. })));
        if !is_back {
            fixture.service.responds("getTask", 404, gone.clone());
        }
        assert_eq!(item.start(prepare).await?.id() == task.id(), is_back);
    }
    assert_eq!(fixture.service.created().len(), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_task_left_at_a_deadline_is_waited_for_again_a_canceled_one_is_not() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").stays_queued();
    let item = fixture.batch()?.item("a");
    let task = item.start(async || fixture.run()?.prepare().await).await?;
    let left = item.ended(task.wait().deadline(SECOND).await);
    assert!(left.as_ref().is_err_and(|error| error.source().is_none()), "{left:?}");
    assert_eq!(item.step()?.and_then(|step| step.task().cloned()).as_ref(), Some(task.id()));
    let canceled = item.ended(task.wait().deadline(SECOND).cancel_at_deadline(true).await);
    assert!(
        matches!(&canceled, Err(Error::Client(error)) if error.disposition() == Some(TaskDisposition::Canceled))
    );
    assert!(matches!(item.step()?, Some(Step::Failed(_))));
    assert_eq!(task.get().await?.status, Some(TaskStatus::Canceled));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_limit_of_the_account_refused_is_called_again_for_ten_minutes() -> Result {
    let fixture = Fixture::new()?;
    let client = fixture
        .service
        .client_builder()
        .settings(|settings| settings.retry = inferstore::Retry::none())
        .build()?;
    for _ in 0..3 {
        fixture.service.responds("getBalance", 429, "too many unfinished tasks");
    }
    let notes = std::cell::Cell::new(0);
    within_limits(|| client.balance(), || notes.set(notes.get() + 1)).await?;
    assert_eq!(notes.get(), 3);
    for _ in 0..1_000 {
        fixture.service.responds("getBalance", 429, "too many unfinished tasks");
    }
    let started = tokio::time::Instant::now();
    let limited = within_limits(|| client.balance(), || ()).await;
    assert_eq!(limited.err().and_then(|error| error.status()), Some(429));
    assert!((599 * SECOND..=600 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_started_twice_at_the_same_time_has_one_task() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").succeeds(json!("done"));
    let batch = fixture.batch()?;
    let start = async || {
        let item = batch.item("a");
        item.start(async || fixture.run()?.prepare().await).await.map(|task| task.id().clone())
    };
    let (one, other) = tokio::join!(start(), start());
    assert_eq!(one?, other?);
    assert_eq!(fixture.service.created().len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_asks_for_more_time_than_there_is_ends_the_item() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").succeeds(json!("done"));
    let client = fixture.service.client_builder().middleware(AsksForEver).build()?;
    let called = within_limits(|| client.balance(), || ()).await;
    assert!(called.is_err_and(|error| error.status() == Some(429)));
    Ok(())
}

/// Rejects every request with a `Retry-After` beyond the range of any clock.
struct AsksForEver;

impl Middleware for AsksForEver {
    fn handle<'a>(&'a self, _: Request, _: Next<'a>) -> BoxFuture<'a, reqwest::Result<Response>> {
        let response = http::Response::builder().status(429).header("retry-after", u64::MAX).body("");
        Box::pin(async { Ok(response.unwrap_or_default().into()) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_across_starts_and_for_items_that_start_together() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").costs("0.3".parse()?).succeeds(json!("done"));
    let batch = || Ok::<_, Box<dyn std::error::Error>>(fixture.batch()?.budget(Some("1".parse()?)));
    let prepare = async || fixture.run()?.max_cost("0.3").prepare().await;
    let items = batch()?;
    let started = futures_util::future::join_all((0..8).map(|number| {
        let item = items.item(number.to_string());
        async move { item.start(prepare).await }
    }));
    let started = started.await;
    assert_eq!(started.iter().filter(|task| task.is_ok()).count(), 3, "0.9 of 1");
    let refused = started.iter().filter(|task| matches!(task, Err(Error::Budget { .. }))).count();
    let deleted = count(&fixture.service.requests(), "deleteFile");
    assert_eq!((refused, deleted), (5, 5), "the uploads of refused runs are deleted");
    let noted: Vec<String> =
        (0..8).zip(&started).filter(|(_, task)| task.is_ok()).map(|(number, _)| number.to_string()).collect();
    drop(items);

    let items = batch()?;
    let refused = items.item("new").start(prepare).await;
    assert!(matches!(refused, Err(Error::Budget { .. })), "{refused:?}");
    assert_eq!(items.committed(&"0".parse()?), "0.9".parse()?);
    // A recorded item is within the budget; a failed one releases its share.
    assert!(items.item(&*noted[0]).start(prepare).await.is_ok());
    items.item(&*noted[1]).failed("canceled")?;
    assert!(items.item("new").start(prepare).await.is_ok());
    let unlimited = items.item("unlimited").prepared(&fixture.run()?.prepare().await?);
    assert!(matches!(unlimited, Err(Error::Unlimited)), "{unlimited:?}");
    assert_eq!(fixture.service.created().len(), 4);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_output_that_was_edited_is_no_longer_one_of_the_item() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").succeeds(json!("done"));
    let [kept, edited] = ["kept.png", "edited.png"].map(|name| fixture.folder.path().join(name));
    [&kept, &edited].into_iter().try_for_each(|path| std::fs::write(path, "saved"))?;
    let item = fixture.batch()?.item("a");
    let task = item.start(async || fixture.run()?.prepare().await).await?;
    item.done(&item.ended(task.wait().await)?, vec![kept.clone(), edited.clone()])?;
    drop(item);
    std::fs::write(edited, "edited later")?;
    let step = fixture.batch()?.item("a").step()?;
    assert_eq!(step.map(|step| step.unchanged_outputs()), Some(vec![kept]));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_outputs_were_replaced_is_saved_again_and_still_counts() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").costs("0.3".parse()?).succeeds(json!("done"));
    let batch = fixture.batch()?;
    let item = batch.item("a");
    let task = item.start(async || fixture.run()?.prepare().await).await?;
    item.done(&item.ended(task.wait().await)?, vec!["out.png".into()])?;
    item.outdated()?;
    assert!(matches!(item.step()?, Some(Step::Saving { task: same, .. }) if same == *task.id()));
    assert_eq!(batch.committed(&"0".parse()?), "0.3".parse()?);
    Ok(())
}

#[test]
fn a_file_that_is_no_journal_is_refused_and_left_as_it_is() -> Result {
    let fixture = Fixture::new()?;
    let client = fixture.service.client()?;
    let path = fixture.folder.path().join("inputs.json");
    let photos = "[\"photos\",{\"a.jpg\":1}]";
    for text in [photos, "[\"a.jpg\",\"b.jpg\"]", "[\"a \\\"b\\\"\", 1]", "[1,2]", "{\"a\":1}", "[\"a\"]"] {
        std::fs::write(&path, text)?;
        let refused = Batch::open(&client, &path);
        assert!(refused.is_err_and(|error| error.kind == JournalErrorKind::Malformed), "{text}");
        assert_eq!(std::fs::read_to_string(&path)?, text);
    }
    // As a kill leaves them.
    for text in ["", "[", "[\"", "[\"a \\\"", "[\"a\\\"b\"", "[\"a\",", "[\"a\",{\"Prep"] {
        std::fs::write(&path, text)?;
        Batch::open(&client, &path)?;
        assert_eq!(std::fs::read_to_string(&path)?, "", "{text}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_hash_of_a_content_leaves_an_item_with_the_same_key() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").succeeds(json!("done"));
    let batch = fixture.batch()?;
    batch.record_content("a.jpg", "earlier")?;
    let item = batch.item("a.jpg");
    let task = item.start(async || fixture.run()?.prepare().await).await?;
    batch.record_content("a.jpg", "later")?;
    let same = item.start(async || fixture.run()?.prepare().await).await?;
    assert_eq!((same.id(), fixture.service.created().len()), (task.id(), 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_crash_leaves_an_item_with_its_task() -> Result {
    let fixture = Fixture::new()?;
    let _ = fixture.service.model("m").succeeds(json!("done"));
    let batch = fixture.batch()?;
    let prepared = fixture.run()?.prepare().await?;
    batch.item("a").prepared(&prepared)?;
    let task = fixture.service.client()?.adopt_or_start(prepared).await?;
    drop(batch);
    // Such as a key that was revoked meanwhile.
    fixture.service.responds("createTask", 401, "");
    let item = fixture.batch()?.item("a");
    let same = item.start(async || fixture.run()?.prepare().await).await?;
    assert_eq!((same.id(), fixture.service.created().len()), (task.id(), 1));
    Ok(())
}
