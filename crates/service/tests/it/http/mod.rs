//! The HTTP edge of the service: connections, limits, refusals, operations.

mod accounts;
mod connections;
mod cors;
mod folder;
mod operations;
mod refusals;
mod start;
mod support;
