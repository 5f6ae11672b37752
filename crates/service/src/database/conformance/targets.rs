//! Upload targets that have stored nothing yet: which they are, and that their blobs are no orphans.

use super::{Engine, File, Fixture};
use crate::clock::Moment;
use crate::object_storage::{Stored, Target, TargetsOf};

/// The identifiers of the pending targets that expire within these bounds, sorted.
async fn pending<E: Engine>(fixture: &Fixture<E>, of: TargetsOf<'_>, expiry: (i64, i64)) -> Vec<String> {
    let expiry = (Moment(expiry.0), Moment(expiry.1));
    let targets = fixture.database.pending_targets(of, expiry, 100).await.unwrap();
    ids(&targets.iter().collect::<Vec<_>>())
}

fn ids(targets: &[&Target]) -> Vec<String> {
    let mut ids: Vec<_> = targets.iter().map(|target| target.id.clone()).collect();
    ids.sort();
    ids
}

/// Whether the blob is kept: an object or a pending target refers to it.
async fn is_known<E: Engine>(fixture: &Fixture<E>, blob: &str) -> bool {
    !fixture.database.known_blobs(&[blob.to_owned()]).await.unwrap().is_empty()
}

pub(crate) async fn a_target_is_pending_until_it_has_stored_its_file_or_is_void(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    let (owner, now) = (fixture.customer, Moment(0));
    let file = File::of_size(3);
    let first = fixture.add_target(owner, owner, &file, Moment(10)).await;
    let second = fixture.add_target(owner, owner, &file, Moment(10)).await;
    let all = TargetsOf::Owner(owner);
    assert_eq!(pending(&fixture, all, (0, 10)).await, ids(&[&first, &second]));
    // The bytes may be in a remote object store already, under the identifier of the target.
    assert!(is_known(&fixture, &first.id).await);

    assert_eq!(fixture.store(&first, &first.id, now).await, Stored::Kept { replaced: None });
    assert_eq!(fixture.store(&first, &first.id, now).await, Stored::Again);
    assert_eq!(pending(&fixture, all, (0, 10)).await, ids(&[&second]));
    assert!(is_known(&fixture, &first.id).await);

    let replaced = Some(first.id.clone());
    assert_eq!(fixture.store(&second, &second.id, now).await, Stored::Kept { replaced });
    assert_eq!(fixture.store(&first, &first.id, now).await, Stored::Void);
    assert!(!is_known(&fixture, &first.id).await, "it was replaced");
    assert_eq!(pending(&fixture, all, (0, 10)).await, ids(&[]));

    fixture.delete(owner, &file, now).await;
    assert!(!is_known(&fixture, &second.id).await, "it was deleted");
    assert_eq!(pending(&fixture, all, (0, 10)).await, ids(&[]));

    let third = fixture.add_target(owner, owner, &file, Moment(10)).await;
    assert!(fixture.database.void_target(&third.id).await.unwrap());
    assert_eq!(fixture.store(&third, &third.id, now).await, Stored::Void);
    assert!(!is_known(&fixture, &third.id).await, "what was uploaded late is no file");
    fixture.upload(owner, owner, &file, now).await;
    assert!(!fixture.database.void_target(&second.id).await.unwrap(), "it has stored a file");
    fixture.assert_books_are_right().await;
}

pub(crate) async fn pending_targets_are_those_of_a_folder_an_owner_or_an_object_within_bounds(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    let (owner, other) = (fixture.customer, fixture.operator);
    let sample = File::of_size(1);
    let cover = File { folder: "covers", ..sample.clone() };
    let late = fixture.add_target(owner, owner, &sample, Moment(30)).await;
    let early = fixture.add_target(owner, owner, &sample, Moment(10)).await;
    let covered = fixture.add_target(owner, other, &cover, Moment(20)).await;
    let foreign = fixture.add_target(other, owner, &sample, Moment(20)).await;

    let folder = TargetsOf::Folder(owner, "samples");
    let object = TargetsOf::Object { bucket: &late.bucket, key: &late.key };
    assert_eq!(pending(&fixture, TargetsOf::Owner(owner), (0, 30)).await, ids(&[&late, &early, &covered]));
    assert_eq!(pending(&fixture, folder, (0, 30)).await, ids(&[&late, &early]));
    assert_eq!(pending(&fixture, object, (0, 30)).await, ids(&[&late, &early]));
    assert_eq!(pending(&fixture, TargetsOf::Everyone, (10, 20)).await, ids(&[&covered, &foreign]));
    assert_eq!(pending(&fixture, folder, (10, 29)).await, ids(&[]));

    // Those that expire last are the first of a limited number.
    let one = fixture.database.pending_targets(folder, (Moment(0), Moment(30)), 1).await.unwrap();
    assert_eq!(ids(&one.iter().collect::<Vec<_>>()), ids(&[&late]));
}

pub(crate) async fn no_write_that_forgets_targets_is_long(engine: impl Engine) {
    let fixture = Fixture::new(engine).await;
    for expires_at in 0..1_003 {
        fixture.add_target(fixture.customer, fixture.customer, &File::of_size(1), Moment(expires_at)).await;
    }
    let forget = async || fixture.database.forget_targets(Moment(1_001)).await.unwrap();
    assert_eq!((forget().await, forget().await, forget().await), (1_000, 1, 0));
    assert_eq!(pending(&fixture, TargetsOf::Everyone, (-1, 2_000)).await.len(), 2);
}
