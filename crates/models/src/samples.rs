//! Sample pictures for every kind, drawn by this project (`tests/it/samples.rs`).

/// A sample picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplePicture {
    /// File name.
    pub name: &'static str,
    /// MIME type.
    pub mime: &'static str,
    /// Content.
    pub bytes: &'static [u8],
}

macro_rules! pictures {
    ($($name:literal $mime:literal)*) => {
        &[$(SamplePicture {
            name: $name,
            mime: $mime,
            bytes: include_bytes!(concat!("../samples/", $name)),
        }),*]
    };
}

/// Every sample picture.
pub const SAMPLE_PICTURES: &[SamplePicture] = pictures! {
    "ball-mask.png" "image/png"
    "ball.jpg" "image/jpeg"
    "dark.jpg" "image/jpeg"
    "hazy.jpg" "image/jpeg"
    "landscape.jpg" "image/jpeg"
    "pan.gif" "image/gif"
    "people.jpg" "image/jpeg"
    "second-view.jpg" "image/jpeg"
    "small.jpg" "image/jpeg"
};
