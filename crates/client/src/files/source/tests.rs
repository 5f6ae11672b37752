//! Properties of a file before its upload.

use futures_util::future::{Either, select};

use super::*;
use crate::files::upload::tests::loopback::{Scratch, TestResult, said};

#[tokio::test]
async fn name_size_and_mime_type_are_known_before_the_upload() -> TestResult {
    let scratch = Scratch::new()?;
    let path = scratch.path("photo.jpg");
    std::fs::write(&path, b"\xff\xd8\xff\xe0\0\x10JFIF")?;
    let from_path = File::from(path.as_path());
    let from_memory = File::bytes("photo.jpg", std::fs::read(&path)?);
    let from_reader = File::reader("photo.jpg", io::Cursor::new(std::fs::read(&path)?));
    for file in [&from_path, &from_memory, &from_reader] {
        let prepared = file.prepare(None).await?;
        assert_eq!((prepared.name.as_str(), prepared.size), ("photo.jpg", 10));
        assert_eq!(prepared.mime, "image/jpeg");
    }
    let renamed = from_path.named("other.bin").with_mime("image/webp").prepare(None).await?;
    assert_eq!((renamed.name.as_str(), renamed.mime.as_str()), ("other.bin", "image/webp"));
    assert_eq!(renamed.label, path.display().to_string(), "errors name the file on this machine");
    Ok(())
}

#[tokio::test]
async fn the_header_of_a_picture_says_its_pixels_wherever_it_stands() -> TestResult {
    // A JPEG may have long metadata before its size.
    let metadata = [&b"\xff\xe1\xff\xff"[..], &[0; 65_533]].concat().repeat(3);
    let size = b"\xff\xc0\0\x11\x08\x23\x28\x2e\xe0\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
    let jpeg = [&b"\xff\xd8"[..], &metadata, size].concat();
    let scratch = Scratch::new()?;
    let path = scratch.path("photo.jpg");
    std::fs::write(&path, &jpeg)?;
    let reader = File::reader("photo.jpg", io::Cursor::new(jpeg.clone()));
    for file in [File::from(path.as_path()), File::bytes("photo.jpg", jpeg.clone()), reader] {
        assert_eq!(file.prepare(None).await?.pixels, Some(12_000 * 9_000));
    }
    for other in [&jpeg[..40_000], b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"text"] {
        assert_eq!(File::bytes("photo.jpg", other.to_vec()).prepare(None).await?.pixels, None);
    }
    Ok(())
}

#[tokio::test]
async fn the_content_alone_identifies_a_file() -> TestResult {
    let id = async |file: File| Ok::<_, crate::Error>(file.prepare(None).await?.content_id);
    let bytes = |text: &'static str| File::bytes("a.bin", text);
    let one = id(bytes("one")).await?;
    assert_eq!(one, id(bytes("one").named("b.bin")).await?, "under another name");
    assert_ne!(one, id(bytes("two")).await?);
    assert_eq!(one, id(File::reader("c.bin", io::Cursor::new("one"))).await?);

    let scratch = Scratch::new()?;
    let path = scratch.path("a.bin");
    std::fs::write(&path, "one")?;
    assert_eq!(one, id((&path).into()).await?);
    let time = std::fs::metadata(&path)?.modified()?;
    std::fs::write(&path, "two")?;
    std::fs::File::options().append(true).open(&path)?.set_modified(time)?;
    assert_ne!(one, id(path.into()).await?, "another content of the same length and time");
    Ok(())
}

#[tokio::test]
async fn the_hash_does_not_depend_on_how_the_content_arrives() -> TestResult {
    let content: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let (mut writer, reader) = tokio::io::duplex(777);
    let pieces = content.clone();
    tokio::spawn(async move {
        for piece in pieces.chunks(1_234) {
            let _ = writer.write_all(piece).await;
        }
    });
    let piecewise = File::reader("a.bin", reader).prepare(None).await?;
    let at_once = File::bytes("a.bin", content).prepare(None).await?;
    assert_eq!(piecewise.content_id, at_once.content_id);
    Ok(())
}

#[tokio::test]
async fn unique_names_cannot_be_guessed() -> TestResult {
    let prepared = File::bytes("a.bin", "content").prepare(None).await?;
    let [one, two] = [prepared.clone().with_stored_name(false).name, prepared.with_stored_name(false).name];
    assert!(one != two && one.len() == 32 + "-a.bin".len() && one.ends_with("-a.bin"), "{one}");
    Ok(())
}

#[tokio::test]
async fn the_temporary_file_of_a_reader_is_private_and_goes_with_its_last_owner() -> TestResult {
    let file = File::reader("a.bin", io::Cursor::new("content"));
    let prepared = file.prepare(None).await?;
    let Source::Reader(spool) = &prepared.source else { return Err("it is not a reader".into()) };
    let path = spool.read().await?.to_path_buf();
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path)?.permissions()) & 0o777,
        0o600
    );
    drop(file);
    let mut opened = prepared.open().await?;
    assert_eq!(std::fs::read_to_string(&path)?, "content");
    drop(prepared);
    assert!(!path.exists());
    let mut content = String::new();
    opened.read_to_string(&mut content).await?;
    Ok(())
}

#[tokio::test]
async fn a_reader_that_failed_is_not_read_again() -> TestResult {
    let file = File::reader("a.bin", broken_reader());
    for _ in 0..2 {
        let error = said(file.prepare(None).await.map(drop));
        assert!(error.contains("a.bin: it cannot be read") && error.contains("the cable is cut"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_is_read_on_when_the_upload_that_began_it_was_dropped() -> TestResult {
    let (mut writer, reader) = tokio::io::duplex(4);
    let file = File::reader("a.bin", reader);
    {
        // More than the pipe can hold, so a part was read.
        let written = select(Box::pin(file.prepare(None)), Box::pin(writer.write_all(b"one two"))).await;
        assert!(matches!(written, Either::Right(_)));
    }
    drop(writer);
    assert_eq!(
        file.prepare(None).await?.content_id,
        File::bytes("b.bin", "one two").prepare(None).await?.content_id
    );
    Ok(())
}

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
    assert_eq!(format!("{file:?}"), r#"File { source: 6 bytes, name: "a.txt", mime: None, pixels: None }"#);
    let file = File::reader("a.txt", io::Cursor::new("SECRET"));
    assert_eq!(format!("{file:?}"), r#"File { source: a reader, name: "a.txt", mime: None, pixels: None }"#);
    let path = PathBuf::from("a/b.txt");
    for file in [File::path("a/b.txt"), File::from(path.as_path()), File::from(&path), File::from(path)] {
        assert_eq!(
            format!("{file:?}"),
            r#"File { source: "a/b.txt", name: "b.txt", mime: None, pixels: None }"#
        );
    }
}

#[test]
fn a_reader_is_equal_to_its_clones_alone() {
    let reader = || File::reader("a.bin", io::Cursor::new("one"));
    let one = reader();
    assert_eq!(one, one.clone());
    assert_ne!(one, reader());
}

#[tokio::test]
async fn the_stored_name_of_an_input_is_short_and_has_no_control_characters() -> TestResult {
    let long = format!("Größe {}.png", "é".repeat(250));
    let no_extension = format!("a.{}", "n".repeat(250));
    for (name, start, end) in [
        ("new\nline\t.png", "new_line_", ".png"),
        (&long, "Größe ééé", "é.png"),
        (&no_extension, "a.nnn", "n"),
    ] {
        let stored = File::bytes(name, "pixels").prepare(None).await?.with_stored_name(false).name;
        let (_, kept) = stored.split_once('-').ok_or("no hyphen")?;
        assert!(kept.starts_with(start) && kept.ends_with(end) && kept.len() <= 100, "{kept:?}");
    }
    Ok(())
}
