//! Pages of a folder hold what counting through the whole folder would find.

use super::Fixture;
use crate::accounts::AccountId;
use crate::object_storage::Files;

async fn run(fixture: &Fixture, sql: String) {
    fixture.database.write(move |db| Ok(db.execute_batch(&sql)?)).await.unwrap();
}

async fn insert(fixture: &Fixture, sequence: u64, owner: AccountId, folder: &str, category: &str) {
    let (bucket, key) = (owner.0, format!("{folder}/{sequence}"));
    let sql = format!(
        "INSERT INTO objects (sequence, id, bucket, key, owner, folder, category, mime, size, etag, blob, created_at) \
         VALUES ({sequence}, 'i{sequence}', '{bucket}', '{key}', {bucket}, '{folder}', '{category}', \
         '{category}/x', 1, 'e', 'b{sequence}', 0)"
    );
    run(fixture, sql).await;
}

/// Compares every page of a folder with the whole of it.
async fn agree(fixture: &Fixture, folder: &str, category: Option<&str>) {
    let owner = fixture.customer;
    let (all, total) = fixture.database.files(owner, folder, category, 1, 10_000).await.unwrap();
    assert_eq!(all.len() as u64, total);
    let keys: Vec<_> = all.iter().map(|file| file.key.clone()).collect();
    for size in [1, 7, 100] {
        for (number, expected) in keys.chunks(size).enumerate() {
            let size = u32::try_from(size).unwrap();
            let page = number as u64 + 1;
            let (files, of_page) = fixture.database.files(owner, folder, category, page, size).await.unwrap();
            let found: Vec<_> = files.into_iter().map(|file| file.key).collect();
            assert_eq!((&found[..], of_page), (expected, total), "page {page} of {size}, {category:?}");
        }
    }
    let beyond = fixture.database.files(owner, folder, category, total + 1, 10).await.unwrap();
    assert_eq!((beyond.0.len(), beyond.1), (0, total));
}

#[tokio::test]
async fn every_page_of_a_folder_is_the_right_one_whatever_was_stored_and_deleted_between() {
    for spread in [1, 10_000] {
        let fixture = Fixture::new(1).await;
        let mut random = fastrand::Rng::with_seed(spread);
        let mut sequence = 0;
        for _ in 0..600 {
            sequence += random.u64(1..=spread);
            let owner = if random.u8(..4) == 0 { fixture.operator } else { fixture.customer };
            let folder = if random.u8(..4) == 0 { "covers" } else { "samples" };
            let category = ["image", "video", "text"][random.usize(..3)];
            insert(&fixture, sequence, owner, folder, category).await;
            if random.u8(..3) == 0 {
                // One of those that came before, or none.
                let before = random.u64(0..=sequence);
                let sql = format!(
                    "DELETE FROM objects WHERE sequence = (SELECT min(sequence) FROM objects WHERE sequence >= {before})"
                );
                run(&fixture, sql).await;
            }
        }
        for category in [None, Some("image"), Some("text"), Some("audio")] {
            agree(&fixture, "samples", category).await;
        }
    }
}
