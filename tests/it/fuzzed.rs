//! Everything that reads foreign bytes, held to what must hold of it: with the kept corpus of the fuzz
//! targets, and with mutations of it.

mod corpus;
mod properties;
