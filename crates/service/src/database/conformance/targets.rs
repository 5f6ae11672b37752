//! Conformance of unused upload targets: pending uploads, the limit of an account, and that their blobs are no orphans.

use super::{Engine, File, Fixture};
use crate::accounts::AccountId;
use crate::clock::Moment;
use crate::files::{Replaces, StorageUse, Stored, Target, TargetsOf};
use crate::ledger::{Credit, Money};
use crate::metrics::Totals;
use crate::queue::{Created, InsufficientBalance};

async fn awaits<E: Engine>(fixture: &Fixture<E>, of: TargetsOf<'_>) -> bool {
    fixture.database.awaits_upload(of).await.unwrap()
}

async fn without_file<E: Engine>(fixture: &Fixture<E>, targets: &[&Target]) -> Vec<Option<bool>> {
    let ids: Vec<_> = targets.iter().map(|target| target.id.clone()).collect();
    let found = fixture.database.targets_without_file(&ids).await.unwrap();
    let is_void = |id: &String| found.iter().find(|target| target.id == *id).map(|target| target.is_void);
    ids.iter().map(is_void).collect()
}

async fn is_known<E: Engine>(fixture: &Fixture<E>, blob: &str) -> bool {
    !fixture.database.known_blobs(&[blob.to_owned()]).await.unwrap().is_empty()
}

pub(crate) async fn a_target_awaits_an_upload_until_it_has_stored_its_file_or_is_void(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (owner, now) = (fixture.customer, Moment(0));
    let file = File::of_size(3);
    let first = fixture.add_target(owner, owner, &file, Moment(10)).await;
    let second = fixture.add_target(owner, owner, &file, Moment(10)).await;
    let (both, all) = ([&first, &second], TargetsOf::Everyone);
    assert_eq!(without_file(&fixture, &both).await, [Some(false), Some(false)]);
    assert!(awaits(&fixture, all).await);
    // The bytes may already be in a remote object store, as a blob with the identifier of the target.
    assert!(is_known(&fixture, &first.id).await);

    assert_eq!(fixture.store(&first, &first.id, now).await, Stored::Done { replaced: None });
    assert_eq!(fixture.store(&first, &first.id, now).await, Stored::Again);
    assert_eq!(without_file(&fixture, &both).await, [None, Some(false)]);
    assert!(is_known(&fixture, &first.id).await && awaits(&fixture, all).await);

    let replaced = Some(first.id.clone());
    assert_eq!(fixture.store(&second, &second.id, now).await, Stored::Done { replaced });
    assert_eq!(fixture.store(&first, &first.id, now).await, Stored::Void);
    assert!(!is_known(&fixture, &first.id).await, "it was replaced");
    assert_eq!(without_file(&fixture, &both).await, [Some(true), None]);
    assert!(!awaits(&fixture, all).await);

    fixture.delete(owner, &file, now).await;
    assert!(!is_known(&fixture, &second.id).await, "it was deleted");
    assert_eq!(without_file(&fixture, &both).await, [Some(true), Some(true)]);
    assert!(!awaits(&fixture, all).await);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn a_quota_counts_what_is_stored_and_what_unused_targets_permit(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (payer, other) = (fixture.customer, fixture.operator);
    let file = |name: &str, size| File { name: name.to_owned(), ..File::of_size(size) };
    fixture.upload(payer, payer, &file("before", 4), Moment(0)).await;
    let database = &fixture.database;
    database.set_quota(payer, Some(10)).await.unwrap();
    let add = async |owner, payer, size: u64, max| {
        let id = fixture.random.uuid().unwrap();
        let mut target = Target::of_owner(id, (owner, "bucket"), "new", size, Moment(10));
        target.payer = payer;
        database.add_target(&target, max).await.unwrap()
    };
    assert!(!add(payer, payer, 7, 9).await);
    assert!(add(other, payer, 5, 9).await && add(payer, other, 7, 9).await);
    assert!(!add(payer, payer, 2, 9).await && add(payer, payer, 1, 9).await);
    let used = StorageUse { quota: Some(10), stored: 4, promised: 6 };
    assert_eq!(database.storage_use(payer).await.unwrap(), used);
    assert!(
        used.refusal(0).is_none()
            && used.refusal(1).is_some_and(|why| why.contains("10 bytes: 4 are stored, 6"))
    );
    fixture.delete(payer, &file("before", 4), Moment(0)).await;
    assert!(add(payer, payer, 4, 9).await && !add(payer, payer, 1, 9).await);
    database.set_quota(payer, None).await.unwrap();
    assert!(add(payer, payer, 1 << 40, 9).await);
    let none = StorageUse { quota: None, stored: 0, promised: (1 << 40) + 10 };
    assert_eq!(database.storage_use(payer).await.unwrap(), none);
}

pub(crate) async fn totals_are_those_of_all_accounts(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let totals = async || fixture.database.totals().await.unwrap();
    assert_eq!(totals().await, Totals::default());
    for (owner, size) in [(fixture.customer, 3), (fixture.operator, 4)] {
        let file = File::of_size(size);
        let target = fixture.add_target(owner, owner, &file, Moment(10)).await;
        fixture.add_target(owner, owner, &file, Moment(10)).await;
        assert_eq!(fixture.store(&target, &target.id, Moment(0)).await, Stored::Done { replaced: None });
    }
    let price = Money::from_smallest(5);
    fixture.database.credit(fixture.customer, Credit::Paid(price), Moment(0)).await.unwrap();
    let task = fixture.task(price);
    let created = fixture.database.create_task(&task, InsufficientBalance::Refuse, 1, Moment(0)).await;
    assert_eq!(created.unwrap(), Created::Queued);
    assert_eq!(totals().await, Totals { stored_bytes: 7, held: 5, unused_targets: 2 });
}

pub(crate) async fn uploads_are_awaited_in_a_folder_by_an_owner_or_for_an_object(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (owner, other) = (fixture.customer, fixture.operator);
    let sample = File::of_size(1);
    let target = fixture.add_target(owner, other, &sample, Moment(30)).await;
    let of = |bucket, key| TargetsOf::Object { bucket, key };
    assert!(awaits(&fixture, TargetsOf::Owner(owner)).await);
    assert!(awaits(&fixture, TargetsOf::Folder(owner, "samples")).await);
    assert!(awaits(&fixture, of(&target.bucket, &target.key)).await);
    for elsewhere in [
        TargetsOf::Owner(other),
        TargetsOf::Folder(owner, "covers"),
        of(&target.bucket, "samples/other"),
        of("other", &target.key),
    ] {
        assert!(!awaits(&fixture, elsewhere).await, "{elsewhere:?}");
    }
}

pub(crate) async fn an_upload_that_is_found_late_replaces_no_later_one(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (owner, file) = (fixture.customer, File::of_size(3));
    let mut targets = Vec::new();
    for _ in 0..4 {
        targets.push(fixture.add_target(owner, owner, &file, Moment(90_000)).await);
    }
    let find = async |number: usize, at: i64| {
        let target: &Target = &targets[number];
        let object = target.object(target.id.clone(), String::new(), Moment(at));
        fixture.database.store_upload(&target.id, &target.id, &object, Replaces::Earlier).await.unwrap()
    };
    assert_eq!(find(0, 5_900).await, Stored::Done { replaced: None });
    assert_eq!(find(1, 4_999).await, Stored::Taken);
    assert!(fixture.database.target(&targets[1].id).await.unwrap().unwrap().is_void);
    assert_eq!(find(1, 9_000).await, Stored::Void);
    // Some stores have times in whole seconds.
    assert_eq!(find(2, 5_000).await, Stored::Done { replaced: Some(targets[0].id.clone()) });
    assert_eq!(find(3, 6_000).await, Stored::Done { replaced: Some(targets[2].id.clone()) });
    let (files, _) = fixture.database.files(owner, "samples", None, 1, 10).await.unwrap();
    assert_eq!(files.iter().map(|file| file.created_at).collect::<Vec<_>>(), [Moment(6_000)]);
    fixture.assert_books_are_right().await;
}

pub(crate) async fn an_account_has_so_many_unused_targets(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (payer, other) = (fixture.customer, fixture.operator);
    let template = fixture.add_target(payer, payer, &File::of_size(1), Moment(1)).await;
    let add = async |owner: AccountId, payer: AccountId| {
        let target = Target { id: fixture.random.uuid().unwrap(), owner, payer, ..template.clone() };
        fixture.database.add_target(&target, 3).await.unwrap().then_some(target)
    };
    let second = add(payer, payer).await.unwrap();
    assert!(add(other, payer).await.is_some(), "also for an organization");
    assert!(add(payer, payer).await.is_none() && add(other, payer).await.is_none());
    assert!(add(payer, other).await.is_some(), "the account that asks is what counts");
    assert!(matches!(fixture.store(&second, "blob", Moment(0)).await, Stored::Done { .. }));
    assert!(add(payer, payer).await.is_some() && add(payer, payer).await.is_none());
    fixture.database.forget_targets(Moment(2)).await.unwrap();
    assert!(add(payer, payer).await.is_some());
}

pub(crate) async fn no_write_that_forgets_targets_is_long(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    for expires_at in 0..1_002 {
        fixture.add_target(fixture.customer, fixture.customer, &File::of_size(1), Moment(expires_at)).await;
    }
    let forget = async || fixture.database.forget_targets(Moment(1_001)).await.unwrap();
    assert_eq!((forget().await, forget().await, forget().await), (1_000, 1, 0));
    assert!(awaits(&fixture, TargetsOf::Everyone).await, "one has not expired");
}
