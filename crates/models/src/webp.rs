//! Checks of sizes in WebP files before decoding: the decoder allocates for the size of a lossy part before
//! it compares that with the container, and never compares a part with transparency in an animation.

/// Returns true if every lossy part has the size of its container, or the file is no WebP.
pub(crate) fn is_consistent(file: &[u8]) -> bool {
    let first = chunk(file, 12).filter(|_| file.starts_with(b"RIFF") && file[8..].starts_with(b"WEBP"));
    let Some(Chunk { kind: b"VP8X", data: header, .. }) = first else { return true };
    let mut first_frame = usize::MAX;
    let mut at = 12;
    while let Some(part) = chunk(file, at) {
        if part.kind == b"VP8 " && lossy_size(&part) != container_size(header, 4) {
            return false;
        }
        if part.kind == b"ANMF" {
            first_frame = first_frame.min(at);
        }
        at = part.padded_end;
    }
    let mut at = first_frame;
    while let Some(frame @ Chunk { kind: b"ANMF", .. }) = chunk(file, at) {
        let lossy = match chunk(frame.data, 16) {
            Some(part) if part.kind == b"VP8 " => Some(part),
            // The decoder parses any following chunk as a lossy part.
            Some(part) if part.kind == b"ALPH" => chunk(frame.data, part.padded_end),
            _ => None,
        };
        if lossy.is_some_and(|part| lossy_size(&part) != container_size(frame.data, 6)) {
            return false;
        }
        // The decoder expects no padding between frames.
        at = frame.end;
    }
    true
}

struct Chunk<'a> {
    kind: &'a [u8],
    data: &'a [u8],
    end: usize,
    padded_end: usize,
}

fn chunk(file: &[u8], at: usize) -> Option<Chunk<'_>> {
    let (kind, rest) = file.get(at..)?.split_at_checked(4)?;
    let (size, data) = rest.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size) as usize;
    let end = at + 8 + size;
    Some(Chunk { kind, data: &data[..size.min(data.len())], end, padded_end: end + size % 2 })
}

fn lossy_size(part: &Chunk<'_>) -> Option<[u32; 2]> {
    let sides = part.data.get(6..10)?;
    Some([0, 2].map(|at| u32::from_le_bytes([sides[at], sides[at + 1] & 0x3f, 0, 0])))
}

fn container_size(header: &[u8], at: usize) -> Option<[u32; 2]> {
    let sides = header.get(at..at + 6)?;
    Some([0, 3].map(|at| 1 + u32::from_le_bytes([sides[at], sides[at + 1], sides[at + 2], 0])))
}
