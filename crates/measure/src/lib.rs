//! Building blocks of benchmarks. They use none of our crates, so that they can measure all of them.

mod http;
mod load;
mod process;
mod rounds;
mod row;
mod server;

pub use http::{Answer, Connection, request};
pub use load::{Latencies, Step, latencies, throughput};
pub use process::{Spent, own_processor_time, peak, processor_time, spent};
pub use rounds::{side_by_side, times};
pub use row::{Better, ROW_MARK, ROWS_VARIABLE, Ratio, Row, figure, median};
pub use server::{Server, free_port};
