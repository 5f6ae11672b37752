//! The model color-harmonization, version afa8f276ba18ca53, in types. Written by `inferstore models code`.
//!
//! The types need serde: `cargo add serde --features derive`.
//! An input that is a file is a URL, such as that of an upload:
//! `client.folder("samples").upload(inferstore::File::path("photo.jpg")).await?.download_url`.

/// The identifier of the model.
pub const MODEL: &str = "color-harmonization";
/// Inputs of the model color-harmonization.
#[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, PartialEq)]
pub struct Input {
    /// Angle. By how many degrees the template is turned from where it fits the image best; 1 changes the colors least. A whole number. It goes from 1 to 90. It is sent as a text. Such as 1, 30.
    pub angle: i64,
    /// Image. The image whose colors are shifted. The URL of a file of type image/*.
    pub input_image: ::std::string::String,
    /// Template. The hues that belong together. One word of a list.
    pub template: InputTemplate,
}
/// Template. The hues that belong together. One word of a list.
#[derive(
    ::serde::Deserialize,
    ::serde::Serialize,
    Clone,
    Copy,
    Debug,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd
)]
pub enum InputTemplate {
    #[serde(rename = "vertical_bar")]
    VerticalBar,
    #[serde(rename = "v_shape")]
    VShape,
    #[serde(rename = "right_angle")]
    RightAngle,
    #[serde(rename = "left_angle")]
    LeftAngle,
    #[serde(rename = "double_bar")]
    DoubleBar,
    #[serde(rename = "t_shape")]
    TShape,
    #[serde(rename = "y_branch")]
    YBranch,
    #[serde(rename = "x_cross")]
    XCross,
}
impl ::std::fmt::Display for InputTemplate {
    fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
        match *self {
            Self::VerticalBar => f.write_str("vertical_bar"),
            Self::VShape => f.write_str("v_shape"),
            Self::RightAngle => f.write_str("right_angle"),
            Self::LeftAngle => f.write_str("left_angle"),
            Self::DoubleBar => f.write_str("double_bar"),
            Self::TShape => f.write_str("t_shape"),
            Self::YBranch => f.write_str("y_branch"),
            Self::XCross => f.write_str("x_cross"),
        }
    }
}
impl ::std::str::FromStr for InputTemplate {
    type Err = self::error::ConversionError;
    fn from_str(
        value: &str,
    ) -> ::std::result::Result<Self, self::error::ConversionError> {
        match value {
            "vertical_bar" => Ok(Self::VerticalBar),
            "v_shape" => Ok(Self::VShape),
            "right_angle" => Ok(Self::RightAngle),
            "left_angle" => Ok(Self::LeftAngle),
            "double_bar" => Ok(Self::DoubleBar),
            "t_shape" => Ok(Self::TShape),
            "y_branch" => Ok(Self::YBranch),
            "x_cross" => Ok(Self::XCross),
            _ => Err("invalid value".into()),
        }
    }
}
impl ::std::convert::TryFrom<&str> for InputTemplate {
    type Error = self::error::ConversionError;
    fn try_from(
        value: &str,
    ) -> ::std::result::Result<Self, self::error::ConversionError> {
        value.parse()
    }
}
impl ::std::convert::TryFrom<::std::string::String> for InputTemplate {
    type Error = self::error::ConversionError;
    fn try_from(
        value: ::std::string::String,
    ) -> ::std::result::Result<Self, self::error::ConversionError> {
        value.parse()
    }
}
/// Outputs of the model color-harmonization.
#[derive(::serde::Deserialize, ::serde::Serialize, Clone, Debug, PartialEq)]
pub struct Output {
    /// Hues. A picture of the hues before and after. The URL of a file of type image/png.
    pub output_hue: ::std::string::String,
    /// Harmonized image. The URL of a file of type image/png or image/jpeg or image/webp.
    pub output_image: ::std::string::String,
}
/// Error types.
pub mod error {
    /// Error from a `TryFrom` or `FromStr` implementation.
    pub struct ConversionError(::std::borrow::Cow<'static, str>);
    impl ::std::error::Error for ConversionError {}
    impl ::std::fmt::Display for ConversionError {
        fn fmt(
            &self,
            f: &mut ::std::fmt::Formatter<'_>,
        ) -> Result<(), ::std::fmt::Error> {
            ::std::fmt::Display::fmt(&self.0, f)
        }
    }
    impl ::std::fmt::Debug for ConversionError {
        fn fmt(
            &self,
            f: &mut ::std::fmt::Formatter<'_>,
        ) -> Result<(), ::std::fmt::Error> {
            ::std::fmt::Debug::fmt(&self.0, f)
        }
    }
    impl From<&'static str> for ConversionError {
        fn from(value: &'static str) -> Self {
            Self(value.into())
        }
    }
    impl From<String> for ConversionError {
        fn from(value: String) -> Self {
            Self(value.into())
        }
    }
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
