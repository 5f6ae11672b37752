//! What is known of a file before it is sent.

use std::time::{Duration, SystemTime};

use super::*;
use crate::files::upload::tests::loopback::{Scratch, TestResult};

#[tokio::test]
async fn everything_that_must_be_known_is_known() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("photo.jpg");
    std::fs::write(&path, b"\xff\xd8\xff\xe0\0\x10JFIF")?;
    let from_path = File::from(path.as_path());
    let from_memory = File::bytes("photo.jpg", std::fs::read(&path)?);
    let from_reader = File::reader("photo.jpg", io::Cursor::new(std::fs::read(&path)?));
    for file in [&from_path, &from_memory, &from_reader] {
        let opened = file.open().await?;
        assert_eq!((opened.name(), opened.size(), opened.mime()), ("photo.jpg", 10, "image/jpeg"));
    }
    let renamed = from_path.named("other.bin").with_mime("image/webp").open().await?;
    assert_eq!((renamed.name(), renamed.mime()), ("other.bin", "image/webp"));
    assert_eq!(renamed.label(), path.display().to_string(), "errors name the file that is there");
    Ok(())
}

#[tokio::test]
async fn the_same_content_has_the_same_fingerprint_and_another_has_not() -> TestResult {
    let bytes = |text: &str| File::bytes("a.bin", text.to_owned().into_bytes());
    let fingerprint = async |file: File| Ok::<_, Error>(file.open().await?.fingerprint().clone());
    let one = fingerprint(bytes("one")).await?;
    assert_eq!(one, fingerprint(bytes("one").named("b.bin")).await?, "under whatever name");
    assert_ne!(one, fingerprint(bytes("two")).await?);
    assert_ne!(one, fingerprint(bytes("one").with_mime("image/png")).await?, "it is stored as another type");
    assert_eq!(one, fingerprint(File::reader("c.bin", io::Cursor::new("one"))).await?);

    let scratch = Scratch::new()?;
    let path = scratch.path("a.bin");
    std::fs::write(&path, "one")?;
    let before = fingerprint(path.clone().into()).await?;
    assert_eq!(before, fingerprint(scratch.path("./a.bin").into()).await?, "by whatever way");
    let later = SystemTime::now() + Duration::from_secs(5);
    std::fs::File::options().append(true).open(&path)?.set_modified(later)?;
    assert_ne!(before, fingerprint(path.into()).await?);
    Ok(())
}

#[tokio::test]
async fn the_hash_does_not_depend_on_how_the_content_arrives() -> TestResult {
    let content: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let (mut writer, reader) = tokio::io::duplex(777);
    let pieces = content.clone();
    tokio::spawn(async move {
        for piece in pieces.chunks(1_234) {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut writer, piece).await;
        }
    });
    let piecewise = File::reader("a.bin", reader).open().await?;
    let at_once = File::bytes("a.bin", content).open().await?;
    assert_eq!(piecewise.fingerprint(), at_once.fingerprint());
    Ok(())
}

#[tokio::test]
async fn the_temporary_file_of_a_reader_goes_with_the_last_who_holds_it() -> TestResult {
    let file = File::reader("a.bin", io::Cursor::new("content"));
    let opened = file.open().await?;
    let Content::Spooled(spooled) = opened.content().clone() else { return Err("it is not spooled".into()) };
    let path = spooled.path().to_owned();
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path)?.permissions()) & 0o777,
        0o600
    );
    drop((file, opened));
    assert_eq!(std::fs::read_to_string(&path)?, "content");
    drop(spooled);
    assert!(!path.exists());
    Ok(())
}

#[tokio::test]
async fn a_reader_that_fails_fails_for_good() -> TestResult {
    let broken = broken_reader();
    let file = File::reader("a.bin", broken);
    for _ in 0..2 {
        let error = file.open().await.map_or_else(|error| error.to_string(), |_| "it was read".to_owned());
        assert!(error.contains("a.bin: it cannot be read: the cable is cut"), "{error}");
    }
    let (never, _keep) = tokio::io::duplex(1);
    let file = File::reader("a.bin", never);
    let interrupted = tokio::time::timeout(Duration::from_millis(1), file.open()).await;
    assert!(interrupted.is_err());
    let error = file.open().await.map_or_else(|error| error.to_string(), |_| "it was read".to_owned());
    assert!(error.contains("interrupted"), "{error}");
    Ok(())
}

/// A reader that gives an error.
fn broken_reader() -> impl AsyncRead + Send + Unpin + 'static {
    struct Broken;

    impl AsyncRead for Broken {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Err(io::Error::other("the cable is cut")))
        }
    }

    Broken
}

#[test]
fn debug_shows_where_a_file_comes_from_and_not_what_is_in_it() {
    let file = File::bytes("a.txt", &b"SECRET"[..]);
    assert_eq!(format!("{file:?}"), r#"File { bytes: 6, name: Some("a.txt"), mime: None }"#);
    let file = File::reader("a.txt", io::Cursor::new("SECRET"));
    assert_eq!(format!("{file:?}"), r#"File { reader: …, name: Some("a.txt"), mime: None }"#);
    for file in [File::from("a/b.txt"), "a/b.txt".to_owned().into(), PathBuf::from("a/b.txt").into()] {
        assert_eq!(format!("{file:?}"), r#"File { path: "a/b.txt", name: None, mime: None }"#);
    }
}
