//! The built-in models of the local service: pure functions from inputs to outputs.
//!
//! Nothing here reaches a network or a file. Some kinds of the catalog are neural networks elsewhere and
//! classical methods here; `docs/models.md` names the method of each. What a run may take is bounded by
//! [`Limits`]; what cannot be done is an [`Error`], never a panic.
//!
//! ```
//! use inferstore_models::{Error, Input, Inputs, Limits, built_in};
//!
//! let extraction = built_in().into_iter().find(|model| model.kind() == "color-extraction").unwrap();
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
mod container;
mod cosine;
mod cutout;
mod decode;
mod draw;
mod encode;
mod error;
mod face_detection;
mod face_mesh;
mod feature_matching;
mod features;
mod guided;
mod haze_removal;
mod hue_wheel;
mod image_blending;
mod image_to_anime;
mod jpeg;
mod low_light_enhancement;
mod memory;
mod model;
mod network;
mod oklab;
mod people;
mod picture;
mod plane;
mod poisson;
mod pyramid;
mod random_walk;
mod resample;
mod samples;
mod semantic_low_light;
mod super_resolution;
mod super_resolution_alt;
mod template;
mod tiff;
mod tile;
mod video_edge_map;
mod webp;

use std::sync::Arc;

pub use error::Error;
pub use memory::{largest_picture, memory_of};
pub use model::{Input, Inputs, Limits, Model, Output};
pub use samples::{SAMPLE_PICTURES, SamplePicture};

/// Returns every model of this crate, in the order of the catalog.
#[must_use]
pub fn built_in() -> Vec<Arc<dyn Model>> {
    let models = [
        image_blending::MODEL,
        color_harmonization::MODEL,
        face_detection::MODEL,
        feature_matching::MODEL,
        background_replacement::MODEL,
        face_mesh::MODEL,
        semantic_low_light::MODEL,
        low_light_enhancement::MODEL,
        super_resolution::MODEL,
        super_resolution_alt::MODEL,
        haze_removal::MODEL,
        video_edge_map::MODEL,
        background_removal::MODEL,
        image_to_anime::MODEL,
        color_extraction::MODEL,
    ];
    models.into_iter().map(|model| Arc::new(model) as Arc<dyn Model>).collect()
}
