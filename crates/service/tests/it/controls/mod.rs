//! Test controls, over HTTP and as methods.

mod data;
mod docs;
mod faults;
mod http;
mod running;
mod support;
