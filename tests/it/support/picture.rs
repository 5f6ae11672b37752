//! Minimal picture for tests.

pub(crate) type Colour = [u8; 3];

pub(crate) fn bitmap(above: Colour, below: Colour) -> Vec<u8> {
    let mut picture = b"BM".to_vec();
    // Header: size of the file, offset of the pixels, 2 by 2 pixels of 24 bits.
    for word in [70_u32, 0, 54, 40, 2, 2, 0x0018_0001, 0, 16, 2835, 2835, 0, 0] {
        picture.extend_from_slice(&word.to_le_bytes());
    }
    // Rows are bottom-up, pixels are BGR, and rows are padded to a multiple of four bytes.
    for [red, green, blue] in [below, above] {
        picture.extend_from_slice(&[blue, green, red, blue, green, red, 0, 0]);
    }
    picture
}

pub(crate) fn red_and_blue() -> Vec<u8> {
    bitmap([255, 0, 0], [0, 0, 255])
}
