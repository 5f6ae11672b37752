//! The smallest picture that tests need.

/// A colour as red, green and blue.
pub(crate) type Colour = [u8; 3];

/// A bitmap of two by two pixels with two colours, one above the other.
pub(crate) fn bitmap(above: Colour, below: Colour) -> Vec<u8> {
    let mut picture = b"BM".to_vec();
    // The header: the size of the file, where its pixels begin, two by two of them, 24 bits each.
    for word in [70_u32, 0, 54, 40, 2, 2, 0x0018_0001, 0, 16, 2835, 2835, 0, 0] {
        picture.extend_from_slice(&word.to_le_bytes());
    }
    // Rows go from the bottom up, pixels are blue, green, red, and a row ends on a multiple of four.
    for [red, green, blue] in [below, above] {
        picture.extend_from_slice(&[blue, green, red, blue, green, red, 0, 0]);
    }
    picture
}

/// Red above blue.
pub(crate) fn red_and_blue() -> Vec<u8> {
    bitmap([255, 0, 0], [0, 0, 255])
}
