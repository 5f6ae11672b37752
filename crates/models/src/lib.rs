//! The built-in models of the local service: pure functions from inputs to outputs.
//!
//! Nothing here reaches a network or a file. Some kinds of the catalog are neural networks elsewhere and
//! classical methods here; `docs/models.md` names the method of each. What a run may take is bounded by
//! [`Limits`]; what cannot be done is an [`Error`], never a panic.
//!
//! ```
//! use inferstore_models::{Error, Input, Inputs, Limits, built_in};
//!
//! let extraction = built_in().iter().find(|model| model.kind() == "color-extraction").unwrap();
//! let inputs = Inputs::from_iter([("input", Input::File(b"not a picture".to_vec()))]);
//! let error = extraction.run(&inputs, &Limits::default()).unwrap_err();
//! assert!(matches!(error, Error::NotAPicture { .. }));
//! ```

mod background_removal;
mod background_replacement;
mod cascade;
mod color_extraction;
mod color_harmonization;
mod color_model;
mod cutout;
mod draw;
mod error;
mod face_detection;
mod feature_matching;
mod features;
mod guided;
mod haze_removal;
mod hue_wheel;
mod image_blending;
mod image_to_anime;
mod low_light_enhancement;
mod model;
mod oklab;
mod picture;
mod plane;
mod poisson;
mod pyramid;
mod super_resolution;
mod super_resolution_alt;
mod template;
mod video_edge_map;

pub use error::Error;
pub use model::{Input, Inputs, Limits, Model, Output};

/// Every model that this crate has, in the order of the catalog.
#[must_use]
pub fn built_in() -> &'static [&'static dyn Model] {
    &[
        &image_blending::ImageBlending,
        &color_harmonization::ColorHarmonization,
        &face_detection::FaceDetection,
        &feature_matching::FeatureMatching,
        &background_replacement::BackgroundReplacement,
        &low_light_enhancement::LowLightEnhancement,
        &super_resolution::SuperResolution,
        &super_resolution_alt::SuperResolutionAlt,
        &haze_removal::HazeRemoval,
        &video_edge_map::VideoEdgeMap,
        &background_removal::BackgroundRemoval,
        &image_to_anime::ImageToAnime,
        &color_extraction::ColorExtraction,
    ]
}
