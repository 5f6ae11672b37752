//! HTTP server: connections, limits, errors, operations.

mod accounts;
mod connections;
mod cors;
mod folder;
mod operations;
mod refusals;
mod start;
mod support;
