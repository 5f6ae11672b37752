//! Checks of a whole file before decoding: formats without a decoder, and truncated files, which would end in gray.

use crate::tiff;

pub(crate) const CUT_OFF: &str = "the file ends before its picture does";

pub(crate) fn fault(file: &[u8]) -> Option<String> {
    if file.is_empty() {
        return Some("it is empty".to_owned());
    }
    if let Some(name) = unreadable_format(file) {
        return Some(format!("it is {name}"));
    }
    (!is_whole(file)).then(|| CUT_OFF.to_owned())
}

fn unreadable_format(file: &[u8]) -> Option<&'static str> {
    if file.get(4..8) == Some(b"ftyp") {
        // The main brand, and those with which the file is compatible.
        let length = u32::from_be_bytes(*file.first_chunk::<4>()?) as usize;
        let brands = file.get(8..length.min(file.len())).unwrap_or_default().as_chunks::<4>().0;
        let has =
            |starts: &[&[u8]]| brands.iter().any(|brand| starts.iter().any(|start| brand.starts_with(start)));
        return Some(if has(&[b"avif", b"avis"]) {
            "AVIF"
        } else if has(&[b"hei", b"hev", b"MiH", b"mif1", b"msf1", b"miaf"]) {
            "HEIC, in which iPhones keep photos"
        } else if has(&[b"crx "]) {
            "a raw photo"
        } else {
            "a video, such as MP4"
        });
    }
    let text = || file.trim_ascii_start().get(..5).unwrap_or_default().to_ascii_lowercase();
    Some(match file {
        [b'I', b'I', b'R' | b'U', ..] | [b'F', b'U', b'J', b'I', ..] | [b'F', b'O', b'V', b'b', ..] => {
            "a raw photo"
        }
        _ if tiff::is_raw_photo(file) => "a raw photo, or a TIFF that begins with a preview",
        [b'I', b'I', b'+', 0, ..] | [b'M', b'M', 0, b'+', ..] => "a BigTIFF",
        [0xff, 0x0a, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => "JPEG XL",
        [0x1a, 0x45, 0xdf, 0xa3, ..] => "a video, such as WebM",
        [b'%', b'P', b'D', b'F', ..] => "PDF",
        _ if [&b"<?xml"[..], b"<svg ", b"<svg>"].contains(&&*text()) => "SVG or other XML",
        _ if [&b"<!doc"[..], b"<html"].contains(&&*text()) => "a web page",
        _ => return None,
    })
}

/// Returns true if the file is complete, or of a format unknown here.
fn is_whole(file: &[u8]) -> bool {
    match file {
        [0xff, 0xd8, ..] => end_of_jpeg(file).is_some(),
        [0x89, b'P', b'N', b'G', ..] => end_of_png(file).is_some(),
        [b'G', b'I', b'F', b'8', ..] => end_of_gif(file).is_some(),
        [b'R', b'I', b'F', b'F', a, b, c, d, ..] => {
            file.len() as u64 >= u64::from(u32::from_le_bytes([*a, *b, *c, *d])) + 8
        }
        _ => true,
    }
}

/// Finds the marker that ends a JPEG picture; earlier segments may contain other pictures.
fn end_of_jpeg(file: &[u8]) -> Option<()> {
    const END: u8 = 0xd9;
    let mut at = 2;
    loop {
        // Within a scan, a byte of 255 is followed by 0 or by a restart marker.
        at += file.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        match *file.get(at + 1)? {
            END => return Some(()),
            0xff => at += 1,
            0 | 1 | 0xd0..=0xd8 => at += 2,
            _ => at += 2 + usize::from(u16::from_be_bytes([*file.get(at + 2)?, *file.get(at + 3)?])).max(2),
        }
    }
}

fn end_of_png(file: &[u8]) -> Option<()> {
    let mut at = 8;
    loop {
        let length = u32::from_be_bytes(*file.get(at..)?.first_chunk::<4>()?) as usize;
        let next = at + 12 + length;
        if file.get(at + 4..at + 8)? == b"IEND" {
            return (next <= file.len()).then_some(());
        }
        at = next;
    }
}

/// Walks the blocks of a GIF file. `None`: the file ends within a block. The trailer byte may be missing.
fn end_of_gif(file: &[u8]) -> Option<()> {
    const EXTENSION: u8 = 0x21;
    const FRAME: u8 = 0x2c;
    let colors = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << (1 + (flags & 7)) };
    let mut at = 13 + colors(*file.get(10)?);
    while let Some(kind) = file.get(at) {
        at += match *kind {
            EXTENSION => 2,
            FRAME => 11 + colors(*file.get(at + 9)?),
            _ => return Some(()),
        };
        loop {
            let length = usize::from(*file.get(at)?);
            at += 1 + length;
            if length == 0 {
                break;
            }
        }
    }
    (at <= file.len()).then_some(())
}
