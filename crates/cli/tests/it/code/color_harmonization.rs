//! The model color-harmonization, version 59d3da1c0e20f1c4, in types. Written by `inferstore models code`.
//!
//! The types need serde: `cargo add serde --features derive`.
//! An input that is a file is a URL, such as that of an upload:
//! `client.folder("samples").upload(inferstore::File::path("photo.jpg")).await?.download_url`.

/// The identifier of the model.
pub const MODEL: &str = "color-harmonization";

/// Inputs of the model color-harmonization.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Input {
    /// Image. The image whose colors are shifted. The URL of a file of type image/jpeg or image/png or image/webp or image/gif or image/bmp or image/tiff.
    pub input_image: String,
    /// Template. The hues that belong together. One word of a list.
    pub template: InputTemplate,
    /// Angle. By how many degrees the template is turned from where it fits the image best; 1 changes the colors least. A whole number. It goes from 1 to 90. It is sent as a text. Such as 1, 30.
    pub angle: i64,
}

/// Template. The hues that belong together. One word of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
pub enum InputTemplate {
    /// One narrow sector
    #[serde(rename = "vertical_bar")]
    VerticalBar,
    /// One wide sector
    #[serde(rename = "v_shape")]
    VShape,
    /// A narrow and a wide sector, at a right angle
    #[serde(rename = "right_angle")]
    RightAngle,
    /// A narrow and a wide sector, at a right angle the other way
    #[serde(rename = "left_angle")]
    LeftAngle,
    /// Two narrow sectors, opposite each other
    #[serde(rename = "double_bar")]
    DoubleBar,
    /// One half of the circle
    #[serde(rename = "t_shape")]
    TShape,
    /// A narrow sector opposite a wide one
    #[serde(rename = "y_branch")]
    YBranch,
    /// Two wide sectors, opposite each other
    #[serde(rename = "x_cross")]
    XCross,
}

/// Outputs of the model color-harmonization.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Output {
    /// Harmonized image. The URL of a file of type image/png or image/jpeg or image/webp.
    pub output_image: String,
    /// Hues. A picture of the hues before and after. The URL of a file of type image/png.
    pub output_hue: String,
}

impl inferstore::ModelKind for Input {
    const NAME: &'static str = MODEL;
    type Output = Output;
    type File = String;

    fn into_parts(self) -> inferstore::KindParts<String> {
        inferstore::kind_parts(&self, [])
    }
}

/// Runs the model. The run starts when it is awaited, and takes options before that.
pub fn run(client: &inferstore::Client, input: Input) -> inferstore::Run<Output> {
    client.model(MODEL).run_typed(input)
}
