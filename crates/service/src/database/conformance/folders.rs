//! Conformance of folder pages: each page equals the result of counting through the whole folder.

use super::{Engine, File, Fixture};
use crate::clock::Moment;

async fn assert_pages<E: Engine>(fixture: &Fixture<E>, files: &[File], category: Option<&str>) {
    let fits = |file: &&File| category.is_none_or(|category| file.category() == category);
    let keys: Vec<String> = files.iter().filter(fits).map(File::key).collect();
    let total = keys.len() as u64;
    for size in [1, 7, 100] {
        for (number, expected) in keys.chunks(size).chain([&[][..]]).enumerate() {
            let size = u32::try_from(size).unwrap();
            let page = number as u64 + 1;
            let listed = fixture.database.files(fixture.customer, "samples", category, page, size);
            let (files, of_page) = listed.await.unwrap();
            let found: Vec<_> = files.into_iter().map(|file| file.key).collect();
            assert_eq!((&found[..], of_page), (expected, total), "page {page} of {size}, {category:?}");
        }
    }
}

pub(crate) async fn every_page_of_a_folder_is_the_right_one_whatever_was_stored_and_deleted_between(
    engine: impl Engine,
) {
    let fixture = Fixture::new(engine).await;
    let mut random = fastrand::Rng::with_seed(1);
    let mut files: Vec<File> = Vec::new();
    for number in 0..150 {
        let mime = ["image/png", "video/mp4", "text/plain"][random.usize(..3)];
        let file = File { name: number.to_string(), mime, ..File::of_size(1) };
        fixture.upload(fixture.customer, fixture.customer, &file, Moment(0)).await;
        files.push(file);
        match random.u8(..4) {
            0 => {
                let gone = files.swap_remove(random.usize(..files.len()));
                fixture.delete(fixture.customer, &gone, Moment(0)).await;
                files.sort_by_key(|file| file.name.parse::<u32>().unwrap());
            }
            1 => {
                let elsewhere = File { folder: "covers", name: number.to_string(), ..File::of_size(1) };
                fixture.upload(fixture.customer, fixture.customer, &elsewhere, Moment(0)).await;
                fixture.upload(fixture.operator, fixture.operator, &File::of_size(1), Moment(0)).await;
            }
            _ => {}
        }
    }
    for category in [None, Some("image"), Some("text"), Some("audio")] {
        assert_pages(&fixture, &files, category).await;
    }
    fixture.assert_books_are_right().await;
}
