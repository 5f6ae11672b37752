//! Programs without async: every operation of this crate has one blocking form.
//!
//! [`blocking`](Blocking::blocking) waits for a future, [`blocking_iter`](BlockingIter::blocking_iter) reads a stream:
//!
//! ```no_run
//! # fn example() -> Result<(), inferstore::Error> {
//! use inferstore::blocking::{Blocking, BlockingIter};
//! use inferstore::{Client, File, Inputs, Step};
//!
//! let client = Client::from_env()?;
//! let balance = client.balance().blocking()?;
//! println!("{}", balance.balance.unwrap_or_default());
//!
//! let inputs = Inputs::new().file("input_image", File::path("photo.jpg"));
//! for step in client.model("haze-removal").run(inputs).events().blocking_iter() {
//!     match step {
//!         Step::Event(event) => println!("{event:?}"),
//!         Step::End(outcome) => {
//!             outcome?.save_all("outputs").blocking()?;
//!         }
//!     }
//! }
//! for model in client.models(Default::default()).blocking_iter() {
//!     println!("{}", model?.id);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Operations run on a Tokio runtime of this crate, on one thread per process that starts with the first
//! operation. So a call within another runtime does not panic, but blocks its thread like every blocking call.
//! Never call it in a [middleware](crate::middleware) or another callback of this crate: callbacks run on that
//! thread, which would wait for itself.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{OnceLock, mpsc};
use std::{iter, thread};

use futures_util::future::FutureExt;
use futures_util::stream::{Stream, StreamExt};
use tokio::runtime::{Builder, Handle};

/// Blocking form of operations that can be awaited.
pub trait Blocking: IntoFuture<IntoFuture: Send + 'static, Output: Send + 'static> + Sized {
    /// Waits for the result.
    ///
    /// # Panics
    ///
    /// The operating system cannot start a thread, or the caller's code within the operation panics.
    fn blocking(self) -> Self::Output {
        wait(self.into_future())
    }
}

impl<F: IntoFuture<IntoFuture: Send + 'static, Output: Send + 'static>> Blocking for F {}

/// Blocking form of a stream.
pub trait BlockingIter: Stream<Item: Send + 'static> + Send + Sized + 'static {
    /// Reads the stream item by item. Each item is waited for as in [`Blocking::blocking`].
    fn blocking_iter(self) -> impl Iterator<Item = Self::Item> {
        // `None` after a panic.
        let mut unread = Some(Box::pin(self));
        iter::from_fn(move || {
            let mut stream = unread.take()?;
            let (item, stream) = wait(async move { (stream.next().await, stream) });
            unread = Some(stream);
            item
        })
    }
}

impl<S: Stream<Item: Send + 'static> + Send + 'static> BlockingIter for S {}

fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime().spawn(async move {
        let done = AssertUnwindSafe(work).catch_unwind().await;
        // The receiver waits below.
        let _ = sender.send(done);
    });
    match receiver.recv() {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("the runtime runs until the process ends"),
    }
}

/// Returns the runtime, which a background thread drives until the process ends.
#[expect(
    clippy::expect_used,
    reason = "without a thread nothing can be sent, as `std::thread::spawn` has it"
)]
fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let handle = runtime.handle().clone();
        let drive = move || runtime.block_on(std::future::pending::<()>());
        thread::Builder::new().name("inferstore".to_owned()).spawn(drive).expect("a thread starts");
        handle
    })
}
