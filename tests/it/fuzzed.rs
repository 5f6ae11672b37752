//! Fuzz targets over the committed corpus and mutations of it.

mod corpus;
mod properties;
